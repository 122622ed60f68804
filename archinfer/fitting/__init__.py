"""Published speeds, the constants fitted to them, and how well they are met."""
