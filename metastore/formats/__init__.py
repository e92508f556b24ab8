"""A module for each format of data files, and what all of them are asked for."""
