"""Statements: the text comes in by the door, and goes to the family that its first words name."""
