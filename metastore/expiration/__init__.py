"""Old versions and the files that only they need: policy, reachability, the handler that acts, the thread it runs in."""
