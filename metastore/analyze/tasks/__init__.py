"""What runs where the files lie: footers are read, and segments made of them."""
