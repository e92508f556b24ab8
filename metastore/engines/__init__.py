"""Where tasks run, and what they cost."""
