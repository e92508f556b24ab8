"""Expires old versions and the files that only they need: policy, reachability, the handler, and its thread."""
