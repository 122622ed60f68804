"""Limits that several modules keep to; nothing is imported here, so that commands may."""

WHOLE_MOST = 10**15
"""Most tokens of context, users and the like: far above any, and exact as a float."""

NODES_MOST = 100_000
"""Most nodes that a question names and that a search for enough of them tries."""

SPEED_MOST = 1e9
"""Most tokens/s of a speed that is asked for or was observed."""

SPARSITY_MOST = 1e6
"""Most total over active parameters that a question asks for."""
