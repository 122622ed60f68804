"""The benchmark of the inverse, on two models whose sizes are known."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("few_draws")

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
MODELS = ("llama-3.1-70b", "gpt-oss-120b")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("inverse_accuracy")


def test_more_evidence_finds_the_sizes_of_two_models(bench: Any) -> None:
    taken = {
        k.maker: k for k in bench.gpu_cases(MODELS) if "h100" in k.name and len(k.evidence) > 1
    }
    assert set(taken) == {"meta", "openai"}
    found = [bench.inferred(known, 1024) for known in taken.values()]
    for one in found:
        assert set(one.ranges) == set(bench.EVIDENCE)
        low, _, _, high = one.ranges["all"]["active_params"]
        assert low <= bench.truth(one.known, "active_params") <= high
        widths = [r["active_params"][3] / r["active_params"][0] for r in one.ranges.values()]
        assert widths[2] < 0.7 * widths[0]
        assert one.factor("all", "active_params") < one.factor(bench.RIVALS[0], "active_params")
        assert np.isnan(one.factor("bandwidth over bytes", "layers"))
    rows = bench.tables(found).splitlines()
    assert sum(line.startswith("| serving engines | all |") for line in rows) == 2


def test_makers_are_left_out(bench: Any) -> None:
    assert [bench.maker(m) for m in ("Qwen3-32B", "gpt-oss-20b", "Mixtral-8x7B")] == [
        "alibaba", "openai", "mistral",
    ]  # fmt: skip
    shape = bench.catalogue.load("gpt-oss-120b").shape()
    whole = bench.fit_prior(
        bench.features(bench.catalogue.load(n).shape()) for n in bench.catalogue.names()
    )
    assert bench.prior_without("openai", shape).moe.size_mean != whole.moe.size_mean


def test_a_part_of_the_page_is_replaced(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "page.md"
    path.write_text("a\n<!-- x -->\nold\n<!-- end -->\nb\n<!-- y -->\nkept\n<!-- end -->\n")
    monkeypatch.setattr(bench.page, "PAGE", path)
    bench.page.write("x", "python x.py", 3.2, "new")
    text = path.read_text()
    assert "old" not in text and "kept" in text and "`python x.py`" in text
    with pytest.raises(ValueError, match="no part z"):
        bench.page.write("z", "", 0.0, "")
