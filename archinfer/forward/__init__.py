"""A known model on a machine: how fast, on how many nodes."""
