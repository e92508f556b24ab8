"""The public place of what :mod:`metastore.components.metastore` defines."""

from __future__ import annotations

from metastore.components.metastore import Metastore as Metastore
from metastore.components.metastore import MetastoreRegistry as MetastoreRegistry
