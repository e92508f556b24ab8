"""Tasks that run on an engine, near the files: they read footers and make segments from them."""
