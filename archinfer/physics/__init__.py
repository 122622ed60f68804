"""What one pass of a model takes on a machine."""
