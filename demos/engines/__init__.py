"""``make demo-engines``: the flights, published, asked by name in DuckDB, PyIceberg and Spark; files are counted."""
