"""Which models a question allows."""
