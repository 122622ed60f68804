"""Language models: their architecture, how their files are read, how they are counted."""
