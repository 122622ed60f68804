"""The parts that an architecture is built of, each with its parameters, caches and steps."""
