"""Old snapshots, and the files that only they reach."""
