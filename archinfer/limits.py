"""Limits that several modules keep to; nothing is imported here, so that commands may."""

NODES_MOST = 100_000
"""Most nodes that a question names and that a search for enough of them tries."""
