"""What an observed speed says, as probabilities."""
