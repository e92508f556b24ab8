"""The one door to DuckDB: sessions, the sandbox, filters, queries."""
