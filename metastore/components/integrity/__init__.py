"""Checks whether a deployment is intact, and repairs it by returning to its newest intact version."""
