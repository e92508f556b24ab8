"""What a procedure is, how it is called, and how it runs."""
