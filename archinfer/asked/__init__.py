"""The entries of the table of what can be asked, by what is asked."""
