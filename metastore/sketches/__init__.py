"""Sketches of values: distinct counts, hashes, samples, and what they tell."""
