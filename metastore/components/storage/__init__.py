"""The only package that accesses catalogs and files of components: writing, committing, planning, reading, deleting."""
