"""What pruning knows of segments, files and row groups, as columns: bounds, counts and places."""
