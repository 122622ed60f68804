"""Sentences that stand in answers and in their JSON, by the code of what they say.

The engine finds codes and numbers; what is said of them stands here alone, below every floor, since
records carry the texts as well.
"""

from __future__ import annotations

TERM_TEXTS = {
    "weights": "reading and multiplying the active weights",
    "kv": "reading the KV cache and multiplying with it",
    "compute": "arithmetic beyond the memory time",
    "reductions": "the chain of dependent all-reduces of each layer",
    "fixed": "the time a layer takes whatever its size",
    "links": "crossings from node to node",
    "head": "the LM head",
    "queue": "waiting for the other users' tokens",
    "draft": "drafting tokens",
    "prompts": "waiting while other users' prompts are read",
}
"""What each term of the time is, in words."""

LIMITS = {
    "term": "{term}; {share} of the time of a pass",
    "nodes": "the mapping takes {used:,} {node}s; there are {there}",
    "capacity": "weights, KV cache and buffers take {times} times the usable memory of the "
    "fullest {node} on {there}; {more}",
    "kv cache": "KV cache and buffers alone take {times} times the usable memory of the "
    "fullest {node} on {there}; {more}",
    "alone": "{hardware} is one {node} without links",
    "least": "at least {least:,.0f} {node}s hold it",
    "never": "one layer alone is more than a {node} holds, so no number of them is enough",
}
"""What limits a prediction, or keeps a model from fitting."""

ATTENTION = {
    "gqa": "grouped-query attention, 8 KV heads of 128",
    "mqa": "multi-query attention, one KV head of 128",
    "mla": "latent attention (MLA), 576 wide",
}

CONSTRAINTS = {
    "definition": "active parameters cannot exceed the total",
    "search floor": "hidden_size of at least {floor}",
    "capacity": "weights, KV cache and activations fit in the usable memory of each {node}; layers "
    "are whole",
    "kv cache": "the KV cache of all users leaves room for weights",
    "speed": "a pass through all layers is fast enough for the tokens it may gain",
    "speed (not faster)": "a pass takes long enough that the model would not have answered faster "
    "than observed",
    "throughput": "tokens/s over all users",
    "cost": "the nodes in use are paid by their tokens",
    "sparsity": "total over active parameters {sparsity}, as built today",
    "shape": "hidden_size / layers and active / (layers hidden_size^2) as built today",
    "depth": "{layers} layers, as built today",
    "power": "power of the nodes in use",
    "price": "cost per hour of the nodes in use",
    "total asked": "--total",
    "active asked": "--active",
    "layers asked": "--layers",
}
"""What physical thing each constraint of the solver is, or who asked for it."""

NOTES = {
    "nodes unknown": "how many {node}s there are was not said: {fewest:,} to {last:,} were tried, "
    "so where capacity draws an end it is that of {last:,} (--nodes says how many)",
    "nodes idle": "no model here uses more than {most:,} of the {last:,} {node}s: layers are whole",
    "search limit": "search limit ({layers} layers; --layers raises it)",
    "no speculation": "without speculation (1 accepted token a pass)",
    "software": "with {name}{place} (fixed times {factor} of its)",
    "in place of": " in place of {usual}",
}
"""What is said of a whole answer, and of other means than those assumed."""

LACKS = {
    "price": "the profile {hardware} states no price (set price.rent, as '30 USD/h')",
    "prompt": "the profile {hardware} does not say how fast prompts are read",
    "power": "the profile {hardware} states no power",
}
"""What a profile does not say, without which something asked of it has no answer."""

CONFLICTS = {
    "three": "three or more constraints exclude each other",
    "two": "no single constraint opens the region; two must give together",
    "one": "only this constraint, relaxed alone, would open the region",
    "each": "each of these alone would open the region",
}
"""Why nothing is feasible: how many constraints have to give."""

RELAXATIONS = {
    "two": "the closest model misses {first} by a factor of {by_first} and {second} by "
    "{by_second}. With {second} given up, {first}: {only_first}. With {first} given up, "
    "{second}: {only_second}",
    "asked": "{quantity} of {side} {found} would do",
    "memory": "{times} times the memory; {nodes}{context}",
    "depth": "models of {least:.0f} to {most:.0f} layers would do",
    "sparsity": "total / active of {ratio:.3g} would do",
    "speed (not faster)": "the slowest model would still be {times} times as fast as observed",
    "power": "{times} times the power that was allowed",
    "price": "{times} times the price that was allowed",
    "cost": "{times} times the cost of a token that was allowed",
    "throughput": "1/{times} of the total tokens/s that was asked",
    "other": "misses by a factor of {times}",
    "too slow, observed": "the fastest model's interval ends at {reached} tokens/s, {times} times "
    "too slow",
    "too slow": "the fastest model makes {reached} tokens/s at {gained}; {asked} would need "
    "{needed} of them",
    "no nodes": "no number of {node}s up to {most:,} is enough",
    "nodes": "{nodes:,} {node}s would do ({weights})",
    "context": "; or a context of {tokens:,} tokens",
}
"""What would do in place of what a constraint asks."""

CHANGES = {
    "weights": "{weights} weights",
    "context": "half the context ({tokens:,} tokens)",
    "kv": "{kv} KV cache",
    "users": "half the users ({users:,})",
    "link latency": "half the latency from {node} to {node}",
    "clock": "10 % more clock",
    "cycles per weight": "half the cycles per weight",
    "bandwidth": "10 % more memory bandwidth",
    "reductions": "a fifth fewer dependent all-reduces",
    "fixed time": "half the fixed time of a layer",
    "speculation": "speculative decoding that gains {gained:g} tokens a pass from {drafted} "
    "drafted",
    "nodes": "{nodes} ({layers} each)",
    "node groups": "{nodes} ({kind}-parallel {group:.0f}, {layers} a stage)",
}
"""What might be changed of a deployment or its hardware."""
