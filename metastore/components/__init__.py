"""The components of a metastore: each defines its unit and its filters, and shares the rest."""
