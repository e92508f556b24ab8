"""Statements by tasks: how one is divided over the files of a table."""
