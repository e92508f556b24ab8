"""Whether a deployment is whole, and the way back to its newest whole version."""
