"""This machine measured with a decoder of its own."""
