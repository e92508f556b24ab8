"""Between the model and Iceberg / Arrow: schemas, rows, bounds, filters. Pure: nothing here does I/O."""
