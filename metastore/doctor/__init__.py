"""Files of a user tried at every door: does each give the same rows, or the same refusal?"""
