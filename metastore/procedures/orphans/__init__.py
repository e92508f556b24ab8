"""Removal of files that no table reaches, and of old metadata files."""
