"""Tests a user's files at every interface: each must return the same rows, or the same error."""
