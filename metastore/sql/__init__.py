"""SQL statements: ``door.execute`` takes the text, and its first words choose the module that runs it."""
