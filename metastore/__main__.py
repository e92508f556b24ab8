"""``python -m metastore``: runs the command line."""

from metastore.cli.main import main

main()
