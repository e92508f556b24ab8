"""The formats of data files, a module for each, and the interfaces that they share."""
