"""Files that nothing reaches."""
