"""The only package that touches catalogs and files: writing, the one commit, planning, reading, listing, deleting."""
