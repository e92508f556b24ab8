"""``python -m metastore.cli``."""

from metastore.cli.main import main

main()
