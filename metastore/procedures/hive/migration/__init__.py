"""Migration of Hive tables to Iceberg, in place: survey, staging of invisible metadata, and a switch in one step."""
