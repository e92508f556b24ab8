"""Sketches of values: distinct counts, hashes, samples, and the statistics that they give."""
