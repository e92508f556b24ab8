"""Old versions and the files that only they need: policy, reachability, the handler that acts, and its thread."""
