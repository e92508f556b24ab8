"""Other metastores that run beside ours: each is started, filled with the same tables, and asked the same things."""
