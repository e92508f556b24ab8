"""The data of tables.

A table's name becomes a location, and a location becomes a list of data files with fingerprints.
"""
