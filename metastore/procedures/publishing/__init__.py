"""Publishing: analyzed folders as Iceberg tables over the very files, for engines that read Iceberg."""
