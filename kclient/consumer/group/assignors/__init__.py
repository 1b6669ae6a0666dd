"""Assignors: how members of a classic group share partitions among themselves."""
