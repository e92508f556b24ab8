"""What the metastore knows, as plain data for people: of tables, columns, files, and what a condition would read.

The command line prints these results, and the console draws them. Modules: ``tables`` and ``file_summaries`` (what was
analyzed), ``pruning`` (what would be read), ``results`` (types), ``formats`` and ``document`` (one value; all as JSON).
"""
