"""``python -m metastore``: the command line."""

from metastore.cli.main import main

main()
