"""The only package that uses DuckDB: sessions, the sandbox, filters, queries."""
