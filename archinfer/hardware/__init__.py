"""Machines: profiles of what they can do, each figure with its source."""
