"""Avro: headers, schemas, blocks, rows."""
