"""Expectations that are held against the model."""
