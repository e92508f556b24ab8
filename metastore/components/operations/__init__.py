"""The operations on a component: read, modify, list its versions."""
