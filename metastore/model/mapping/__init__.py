"""Maps the model to Iceberg and Arrow: schemas, rows, bounds, filters. Pure functions: nothing here does I/O."""
