"""A user's files tried at every door: each gives the same rows there, or the same refusal."""
