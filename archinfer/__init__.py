"""archinfer: what the speed of a language model says about its size."""
