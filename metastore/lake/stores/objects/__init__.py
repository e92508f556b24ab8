"""Object stores: requests, conditional writes, listings."""
