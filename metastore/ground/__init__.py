"""Small modules that everything stands on, and that need no other module but the errors."""
