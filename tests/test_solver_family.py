"""The solver's family keeps exact totals, and its rules are figures of the catalogue."""

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archinfer import catalogue
from archinfer.errors import UnknownNameError
from archinfer.models.layers import MoE
from archinfer.models.solver_family import (
    ATTENTION_KINDS,
    FamilyRules,
    Habits,
    attention_rule,
    family_shape,
)

RULES = FamilyRules()


@pytest.fixture(scope="module")
def models() -> list[dict[str, float]]:
    rows = []
    for name in catalogue.names():
        arch = catalogue.load(name)
        count = arch.parameters()
        outside = sum(count.by_component.get(c, 0) for c in ("embedding", "lm_head"))
        tables = count.by_component.get("ngram_table", 0)
        inside = count.active - outside - max(tables - arch.unread, 0)
        routed = sum(
            block.count
            * float(ff.routed_params(arch.hidden_size) * ff.experts_per_token / ff.experts)
            for block in arch.blocks
            for ff in block.feed_forwards
            if isinstance(ff, MoE)
        )
        rows.append(
            {
                "sparsity": (count.total - tables) / count.active,
                "layers": arch.layers,
                "aspect": arch.hidden_size / arch.layers,
                "per_layer": inside / (arch.layers * arch.hidden_size**2),
                "vocab": arch.vocab_size,
                "routed_share": routed / inside,
                "top_k": arch.moe.top_k if arch.moe else 0,
            }
        )
    return rows


def test_habits_are_what_the_catalogue_holds(models: list[dict[str, float]]) -> None:
    habits = Habits()

    def quantiles(key: str) -> tuple[float, float]:
        low, high = np.quantile([m[key] for m in models], [0.05, 0.95])
        return float(low), float(high)

    assert habits.aspect == pytest.approx(quantiles("aspect"), rel=0.02)
    assert habits.params_per_layer == pytest.approx(quantiles("per_layer"), rel=0.02)
    depths = [m["layers"] for m in models]
    assert habits.layers == (min(depths), max(depths))
    sparsest = max(m["sparsity"] for m in models)
    assert 0.95 * habits.sparsity[1] <= sparsest <= habits.sparsity[1]


def test_rules_are_medians_of_the_catalogue(models: list[dict[str, float]]) -> None:
    sparse = [m for m in models if m["top_k"]]
    assert RULES.params_per_layer == pytest.approx(
        statistics.median(m["per_layer"] for m in models), rel=0.02
    )
    assert RULES.vocab_size == statistics.median(m["vocab"] for m in models)
    assert RULES.routed_share == pytest.approx(
        statistics.median(m["routed_share"] for m in sparse), rel=0.05
    )
    assert RULES.experts_per_token == statistics.mode(m["top_k"] for m in sparse)


@given(
    st.floats(1e8, 3e12),
    st.floats(1.0, 40.0),
    st.integers(1, 300),
    st.sampled_from(sorted(ATTENTION_KINDS)),
)
def test_totals_are_exact(active: float, sparsity: float, layers: int, kind: str) -> None:
    rules = FamilyRules(attention=kind)
    if active < rules.active_params(128.0, layers):
        return
    shape = family_shape(active * sparsity, active, float(layers), rules)
    assert float(shape.total_params) == pytest.approx(active * sparsity, rel=1e-9)
    assert float(shape.active_params) == pytest.approx(active, rel=1e-9)
    group = shape.groups[0]
    assert group.shared_params > 0
    assert group.experts >= group.experts_per_token * (1 - 1e-9)


@given(st.floats(128, 60_000), st.integers(1, 500))
def test_hidden_size_inverts(hidden: float, layers: int) -> None:
    active = RULES.active_params(hidden, layers)
    assert float(RULES.hidden_size(active, layers)) == pytest.approx(hidden, rel=1e-9)


def test_kv_bytes_of_the_three_kinds() -> None:
    """128 k tokens and 88 layers: 47 GB with 8 KV heads of 128, 13 GB with a 576-wide latent."""
    for kind, gigabytes in (("gqa", 47.2), ("mla", 13.3), ("mqa", 5.9)):
        stored = 88 * 131_072 * ATTENTION_KINDS[kind].values_per_token * 2
        assert stored / 1e9 == pytest.approx(gigabytes, abs=0.1)


def test_unknown_kind() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'gqa'"):
        attention_rule("gqaa")


@given(st.floats(20e6, 3e12), st.integers(2, 120), st.floats(2e3, 3e5), st.booleans())
def test_tables_of_any_vocabulary_are_counted_once_where_tied(
    active: float, layers: int, vocabulary: float, tied: bool
) -> None:
    rules = FamilyRules(vocab_size=vocabulary, tied=tied)
    hidden = rules.hidden_size(active, layers)
    assert rules.active_params(hidden, layers) == pytest.approx(active, rel=1e-9)
    shape = family_shape(active, active, layers, rules, dense=True)
    assert shape.total_params == pytest.approx(active, rel=1e-9)
    # A tied table is read whole as the head, and stored once.
    table = vocabulary * float(hidden)
    assert shape.outside_params == pytest.approx(table if tied else 2.0 * table)
    assert shape.head_params == shape.lookup_params == pytest.approx(table)


def test_a_known_vocabulary_fixes_region_posterior_and_architectures() -> None:
    from archinfer import solve

    asked = {"hardware": "h100-sxm", "nodes": 1, "observed": 400.0, "weights": "bf16", "seed": 0}
    usual = solve(**asked, architectures=2)
    small = solve(**asked, architectures=2, vocabulary=32_000, tied=True)
    assert small.question.rules.vocab_size == 32_000.0 and small.question.rules.tied
    assert small.architectures
    for design in small.architectures:
        assert design.architecture.vocab_size == 32_000 and design.architecture.tied
    least = [float(np.min(answer.region.active_low)) for answer in (usual, small)]
    assert least[1] < 0.75 * least[0]
    assert small.to_dict()["question"]["tied"] is True
    smallest = [a.posterior.marginals["active_params"].p05 for a in (usual, small)]
    assert smallest[1] < smallest[0]
