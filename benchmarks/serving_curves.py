"""Predicted against measured curves of serving engines: tokens/s of a user over those of a GPU.

    python benchmarks/serving_curves.py [--write]

A curve is one model on one machine in one format at one pair of lengths under one engine, over all
mappings and numbers of users in `archinfer/data/serving.csv`; those with at least five numbers of
users count (no curve has eight). Of each the hypervolume is compared: the area below the front of
(tokens/s of one user, output tokens/s of one GPU), from the same configurations, measured and
predicted. And the best batch: the most users that all see 20, 50 and 100 tokens/s, in steps of the
measured ladder.

The shipped constants were fitted to the same rows (`benchmarks/gpu_constants.py` leaves models
out), so this says how well the form of the law holds, not how well it carries over.

Where two engines ran the same configurations, their own curves are held against each other: a
prediction that does not know the engine can be no nearer to both than half of that.
`--write` puts the figures into docs/validation.md.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable, Sequence

import numpy as np
import page

from archinfer.fitting.pooled import compared
from archinfer.fitting.serving import Compared, rows

USERS_LEAST = 5
TARGETS = (20.0, 50.0, 100.0)
"""Tokens/s that every user shall see."""

Point = tuple[float, float]


def curves(every: Iterable[Compared], engines: bool) -> dict[tuple[str, ...], list[Compared]]:
    """Configurations by model, machine, format, engine (or the best of all) and lengths."""
    found: dict[tuple[str, ...], list[Compared]] = {}
    for one in every:
        row = one.row
        engine = row.engine if engines else "all engines"
        lengths = str(row.prompt_tokens), str(row.output_tokens)
        key = row.model, row.profile, row.weights, engine, *lengths
        found.setdefault(key, []).append(one)
    return {
        key: own
        for key, own in found.items()
        if len({c.row.concurrency for c in own}) >= USERS_LEAST
    }


def hypervolume(points: Iterable[Point]) -> float:
    """Area of what the points dominate, from the origin."""
    area, best = 0.0, 0.0
    for x, y in sorted(points, reverse=True):
        if y > best:
            area += x * (y - best)
            best = y
    return area


def point(one: Compared, predicted: bool) -> Point:
    """Tokens/s of one user and of one GPU."""
    speed = 1.0 / (one.row.per_token_s * (np.exp(one.error) if predicted else 1.0))
    return speed, speed * one.row.concurrency / one.row.nodes


def best_batches(own: list[Compared]) -> list[int]:
    """Steps by which the predicted best batch is off, for each mapping and target."""
    steps = []
    groups: dict[tuple[object, ...], list[Compared]] = {}
    for c in own:
        r = c.row
        key = r.engine, r.engine_version, r.nodes, r.whole_experts, r.attention_replicas
        groups.setdefault(key, []).append(c)
    for group in groups.values():
        ladder = [0, *sorted({c.row.concurrency for c in group})]
        if len(ladder) < 5:
            continue
        for target in TARGETS:
            best = [
                max((c.row.concurrency for c in group if point(c, p)[0] >= target), default=0)
                for p in (False, True)
            ]
            steps.append(ladder.index(best[1]) - ladder.index(best[0]))
    return steps


def errors(found: dict[tuple[str, ...], list[Compared]]) -> dict[tuple[str, ...], float]:
    """Logarithm of the predicted over the measured area of each curve."""

    def area(own: list[Compared], predicted: bool) -> float:
        return hypervolume(point(c, predicted) for c in own)

    return {key: float(np.log(area(own, True) / area(own, False))) for key, own in found.items()}


def of_engines(
    every: Iterable[Compared],
) -> tuple[list[float], list[float]]:
    """Logarithm of one engine's time, and of the area of its curve, over another's on the same
    configurations; every pair once."""
    times: dict[tuple[object, ...], dict[tuple[object, ...], Compared]] = {}
    for c in every:
        r = c.row
        curve = r.model, r.profile, r.weights, r.prompt_tokens, r.output_tokens
        place = r.nodes, r.attention_replicas, r.whole_experts, r.concurrency
        times.setdefault((*curve, r.engine), {})[place] = c
    pairs, areas = [], []
    for (a, one), (b, other) in itertools.combinations(times.items(), 2):
        both = sorted(set(one) & set(other), key=str)
        if a[:-1] != b[:-1] or not both:
            continue
        pairs += [float(np.log(one[x].row.per_token_s / other[x].row.per_token_s)) for x in both]
        if len({x[-1] for x in both}) >= USERS_LEAST:
            found = [hypervolume(point(own[x], False) for x in both) for own in (one, other)]
            areas.append(float(np.log(found[0] / found[1])))
    return pairs, areas


def as_best(best: dict[tuple[str, ...], list[Compared]], areas: Sequence[float]) -> Iterable[float]:
    """Errors of the areas over all engines where the usual engine is not what is predicted but the
    best of two: s / sqrt(pi) above their mean, s the spread of an area over engines (half the
    square of what lies between two)."""
    spread = float(np.sqrt(np.mean(np.square(areas)) / 2.0))
    for key, error in errors(best).items():
        several = len({c.row.engine for c in best[key]}) > 1
        yield error + (spread / np.sqrt(np.pi) if several else 0.0)


def said(name: str, found: Iterable[float]) -> str:
    """Medians of the errors of some curves."""
    off = np.abs(list(found))
    middle, near = np.median(np.expm1(off)), np.mean(off <= np.log(1.2))
    return (
        f"- {name}: median error of the area {100 * middle:.1f} %, within 20 % in "
        f"{100 * near:.0f} % of {len(off)} curves"
    )


def levels(found: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """Median error of the curves of one model, machine, format and engine."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for key, error in found.items():
        groups.setdefault(key[:4], []).append(error)
    return {key: float(np.median(own)) for key, own in groups.items()}


def median(logs: Sequence[float]) -> str:
    """Median factor of the larger over the smaller."""
    return f"{np.exp(np.median(np.abs(logs))):.2f}"


def main() -> None:
    """Print the level of each engine with each model, and the medians."""
    began = time.process_time()
    every = compared(rows())
    by_engine = curves(every, engines=True)
    apart = errors(by_engine)
    level = levels(apart)
    for key, error in sorted(level.items()):
        print(f"{' '.join(key):50s} area {np.exp(error):4.2f} times the measured one")
    pairs, areas = of_engines(every)
    steps = np.abs([step for own in by_engine.values() for step in best_batches(own)])
    best = curves(every, engines=False)
    lines = [
        said("best of all engines", errors(best).values()),
        said("predicted as the best of those that ran", as_best(best, areas)),
        said("engines apart", apart.values()),
        said("the same but for the level of engine, model and machine",
             (e - level[k[:4]] for k, e in apart.items())),
        f"- best batch within one step in {100 * np.mean(steps <= 1):.0f} % of {len(steps)} cases",
        f"- two engines on one configuration: {median(pairs)} between their times in the median "
        f"({len(pairs)} pairs), {median(areas)} between the areas of their curves ({len(areas)} "
        f"pairs; the nearest to both is {median([a / 2.0 for a in areas])} from each)",
    ]  # fmt: skip
    print("\n".join(lines))
    if "--write" in sys.argv[1:]:
        seconds = time.process_time() - began
        page.write(
            "serving_curves",
            "python benchmarks/serving_curves.py --write",
            seconds,
            "\n".join(lines),
        )


if __name__ == "__main__":
    main()
