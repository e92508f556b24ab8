"""Facts about segments, files and row groups for pruning, as columns: bounds, counts and places."""
