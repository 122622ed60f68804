"""Deployments against brute force, their properties, and what the command prints."""

from __future__ import annotations

import csv
import json
import math
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archinfer import Hardware, pareto, predict, solve
from archinfer.api.planning import priced
from archinfer.errors import InputError
from archinfer.forward.pareto import Evaluated, found_of, non_dominated
from archinfer.models.checkpoint import read_model
from archinfer.physics.deployment import Deployment
from archinfer.physics.economy import node_dollars_per_hour, node_power_w
from archinfer.physics.mapping import Layout
from archinfer.physics.prefill import time_to_first_token
from archinfer.report.pareto import csv_rows
from archinfer.solver.emit import emit
from tests.cli import run


def evaluated(model: str, hardware: str, **asked) -> Evaluated:
    plan = replace(
        pareto(model, hardware, nodes=1).question,
        nodes=(1, asked.pop("most", 8)),
        users=asked.pop("users", None),
        target_tokens_per_s=asked.pop("target", None),
    )
    deployment = Deployment(context_tokens=8500, prompt_tokens=8000, output_tokens=1000, kv="bf16")
    return Evaluated.of(read_model(model)[0], Hardware.load(hardware), deployment, plan)


@pytest.mark.parametrize(
    ("model", "hardware"),
    [("llama-3.1-70b", "h100-sxm"), ("gpt-oss-120b", "b200"), ("qwq-32b", "wse-3")],
)
def test_every_deployment_is_what_predict_says(model: str, hardware: str) -> None:
    found = evaluated(model, hardware)
    deployment = Deployment(context_tokens=8500, prompt_tokens=8000, output_tokens=1000, kv="bf16")
    for i in np.linspace(0, len(found.batch) - 1, 12).astype(int):
        mapping = found.mapping.one(i)
        one = predict(
            read_model(model)[0],
            hardware,
            deployment.with_(concurrency=int(found.batch[i]), mapping=mapping, nodes=8),
            changes=False,
        )
        assert one.fits
        assert one.speed == pytest.approx([float(q[i]) for q in found.user_speed], rel=1e-9)
        assert one.nodes_used == found.all_nodes[i]
        first = time_to_first_token(one.hardware, one.workload, one.mapping, one.time)
        if first is not None:
            assert float(first.total) == pytest.approx(float(found.first_token_s.p50[i]), rel=1e-9)
        watts = node_power_w(one.hardware, one.workload, one.mapping, one.time.total)
        assert float(watts) == pytest.approx(float(found.node_power_w[i]), rel=1e-9)
        hourly = float(node_dollars_per_hour(one.hardware, watts)) * one.nodes_used
        made = 3600.0 * found.batch[i] * one.speed.p50
        assert found.dollars[i] == pytest.approx(1e6 * hourly / made, rel=1e-9)


def test_the_best_batch_is_the_last_that_meets_the_target() -> None:
    """Against every batch, one at a time."""
    target = 40.0
    found = pareto("llama-3.1-70b", "h100-sxm", nodes=4, mapping="tp=4", target=target)
    best = found.cheapest
    asked = {"nodes": 4, "mapping": "tp=4", "prompt": 8000, "output": 1000}
    speeds = {
        n: predict("llama-3.1-70b", "h100-sxm", concurrency=n, **asked).speed.p50
        for n in range(1, 20)
    }
    fast = [n for n, speed in speeds.items() if speed >= target]
    assert fast == list(range(1, best.users + 1))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
def test_the_front_is_what_no_other_beats(points: list[tuple[int, int]]) -> None:
    x, y = (np.array(v, dtype=float) for v in zip(*points, strict=True))
    kept = {points[i] for i in non_dominated(x, y)}
    beaten = {p for p in points if any(q[0] >= p[0] and q[1] >= p[1] and q != p for q in points)}
    assert kept == set(points) - beaten
    assert len(kept) == len(non_dominated(x, y))


@pytest.mark.parametrize("hardware", ["b200", "h100-sxm", "wse-3", "mi300x"])
def test_a_front_falls_from_speed_to_throughput(hardware: str) -> None:
    (machine,) = pareto("gpt-oss-120b", hardware, nodes="1:16").machines
    speed = [c.tokens_per_s_per_user.p50 for c in machine.front]
    made = [c.tokens_per_s_per_node.p50 for c in machine.front]
    assert speed == sorted(speed, reverse=True) and made == sorted(made)
    assert all(c.memory_fraction <= 1.0 for c in machine.front)


@settings(deadline=None, max_examples=5)
@given(st.floats(20, 150), st.floats(1.05, 2.0))
def test_a_harder_target_costs_no_less(target: float, harder: float) -> None:
    easy, hard = (
        pareto("gpt-oss-120b", "h100-sxm", nodes="1:4", target=t).cheapest
        for t in (target, target * harder)
    )
    if hard is not None:
        assert easy is not None
        low, high = (c.dollars_per_million_output_tokens for c in (easy, hard))
        assert low <= high * (1.0 + 1e-9)
        assert hard.tokens_per_s_per_user.p50 >= target * harder * (1 - 1e-9)


def test_more_nodes_never_cost_more() -> None:
    costs = [
        pareto("gpt-oss-120b", "h100-sxm", nodes=(1, n), target=60).cheapest for n in (1, 2, 4, 8)
    ]
    dollars = [c.dollars_per_million_output_tokens for c in costs if c is not None]
    assert dollars and all(a >= b * (1 - 1e-9) for a, b in pairwise(dollars))


def test_cost_and_energy_have_the_interval_of_the_speed() -> None:
    """What is paid by the hour goes with the time of a token; the energy of bytes does not."""
    known = found_of([evaluated("deepseek-v3", "h100-sxm", most=16)]).front[0]
    speed = known.tokens_per_s_per_user
    for ends, middle in (
        (known.dollars_range, known.dollars_per_million_output_tokens),
        (known.joules_range, known.joules_per_token),
    ):
        assert ends.low < middle < ends.high
    assert known.dollars_range.high / known.dollars_range.low == pytest.approx(
        speed.p95 / speed.p05
    )
    assert known.power_basis == "activity"
    assert known.joules_range.high / known.joules_range.low < speed.p95 / speed.p05


def test_users_are_served_by_copies() -> None:
    found = pareto("llama-3.1-70b", "h100-sxm", nodes="1:64", target=30, concurrency=200)
    best = found.cheapest
    assert best.users == 200
    assert best.nodes == best.copies * best.mapping.tensor_parallel * best.mapping.stages
    assert best.tokens_per_s_per_node.p50 == pytest.approx(
        200 * best.tokens_per_s_per_user.p50 / best.nodes
    )


def test_predict_says_what_copies_on_idle_nodes_would_do() -> None:
    asked = {"concurrency": 16, "context": 32000, "changes": False}
    one = predict("deepseek-v3", "b200", nodes=64, mapping="tp=8,pp=1", **asked)
    found = one.copies
    assert found is not None and (found.copies, found.users) == (8, 2)
    two = predict("deepseek-v3", "b200", nodes=8, mapping="tp=8,pp=1", **asked | {"concurrency": 2})
    assert found.tokens_per_s == pytest.approx(two.speed) and found.tokens_per_s.p50 > one.speed.p50
    assert two.copies is None
    plan = pareto("deepseek-v3", "b200", nodes=64, mapping="tp=8,pp=1", concurrency=16,
                  context=32000)  # fmt: skip
    best = plan.deployments[0]
    assert best.copies == 8
    assert best.tokens_per_s_per_user == pytest.approx(found.tokens_per_s)


def test_a_context_holds_half_an_answer_in_every_command() -> None:
    plan = pareto("llama-3.1-8b", "h100-sxm", nodes=1, context=32000, output=2000).question
    said = predict("llama-3.1-8b", "h100-sxm", nodes=1, context=32000, output=2000, changes=False)
    assert plan.prompt_tokens == said.deployment.prompt == 31000
    assert plan.context_tokens == said.deployment.context_tokens == 32000


def test_a_limit_on_the_first_token_binds_and_may_be_unknown() -> None:
    loose = pareto("llama-3.1-70b", "h100-sxm", nodes="1:8", target=20).cheapest
    tight = pareto("llama-3.1-70b", "h100-sxm", nodes="1:8", target=20, ttft="1s").cheapest
    assert tight.time_to_first_token_s.p50 <= 1.0 < loose.time_to_first_token_s.p50
    other = pareto("llama-3.1-70b", "groq-lpu-v1", nodes="1:2000", ttft="1s")
    assert other.cheapest is None and math.isinf(other.nearest.misses_by)


def test_a_machine_whose_nodes_hold_nothing_has_no_front() -> None:
    found = pareto("qwq-32b", "wse-3", nodes=1)
    assert found.cheapest is None and not found.deployments


def test_the_nearest_miss_says_what_would_help() -> None:
    found = pareto("llama-3.1-70b", "h100-sxm", nodes="1:4", target=300)
    assert found.cheapest is None and found.nearest.misses_by > 1.0
    assert any("fp8" in change.text for change in found.what_would_help)


def test_every_number_of_users_of_a_machine_at_once() -> None:
    found = evaluated("deepseek-v3", "b200", most=64, target=50)
    assert found.misses.shape[0] > 500


@pytest.mark.parametrize(("users", "tokens_per_s"), [(8, 78), (16, 58), (32, 39), (64, 29)])
def test_deepseek_r1_on_eight_h200(users: int, tokens_per_s: float) -> None:
    """Published tokens/s of one user by users."""
    found = predict(
        "deepseek-r1", "h200-sxm", nodes=8, mapping="tp=8", concurrency=users, context=1500,
        speculation=1, changes=False,
    )  # fmt: skip
    low, middle, high = found.speed
    assert low <= tokens_per_s <= high
    assert middle == pytest.approx(tokens_per_s, rel=0.2)


def test_gpt_oss_on_h100_by_concurrency() -> None:
    """269 tokens/s of one user alone to 66 of 64 users, the number of GPUs not stated."""

    def holds(nodes: int) -> bool:
        speeds = [
            predict(
                "gpt-oss-120b", "h100-sxm", nodes=nodes, mapping=f"tp={nodes}", concurrency=users,
                context=1500, speculation=1, changes=False,
            ).speed
            for users in (1, 64)
        ]  # fmt: skip
        return all(s.p05 <= v <= s.p95 for s, v in zip(speeds, (269, 66), strict=True))

    assert any(holds(nodes) for nodes in (1, 2, 4, 8))


def test_power_at_load() -> None:
    """gpt-oss-120b on eight H100 with 64 users draws 1.4 kW of GPU power; nameplate says 10.2."""
    found = predict(
        "gpt-oss-120b", "h100-sxm", nodes=8, mapping="tp=8", concurrency=64, context=1500,
        changes=False,
    )  # fmt: skip
    watts = 8 * float(node_power_w(found.hardware, found.workload, found.mapping, found.time.total))
    assert watts == pytest.approx(1400, rel=0.25)
    assert watts < 0.25 * 8 * found.hardware.power_w


def test_power_grows_with_users_and_stays_below_the_nameplate() -> None:
    found = evaluated("llama-3.1-70b", "h100-sxm")
    mine = (found.mapping.tensor_parallel == 8) & (found.mapping.layers_per_stage == 80)
    order = np.argsort(found.batch[mine])
    watts = found.node_power_w[mine][order]
    assert np.all(np.diff(watts) >= -1e-9) and watts[-1] <= found.hardware.power_w
    assert watts[0] > found.hardware.idle_power_w


def test_a_purchase_is_paid_over_its_life_with_its_power() -> None:
    wafer = Hardware.load("wse-3")
    hourly = 2.5e6 / (4 * 8766) + 23 * 0.10
    assert float(node_dollars_per_hour(wafer, 23e3)) == pytest.approx(hourly)
    (rented,) = priced([wafer], ["wse-3=30 USD/h"])
    assert float(node_dollars_per_hour(rented, 23e3)) == pytest.approx(30.0)
    (bought,) = priced([Hardware.load("b200")], ["b200=40k USD"])
    assert float(node_dollars_per_hour(bought, 1e3)) == pytest.approx(40e3 / (4 * 8766) + 0.10)
    assert not float(node_dollars_per_hour(Hardware.load("wse-2"), 1.0)) > 0.0
    for wrong in (["b200=4USD/h"], ["wse-3=fast"]):
        with pytest.raises(InputError):
            priced([wafer], wrong)


ASKED = ("pareto", "deepseek-v3", "--hardware", "h100-sxm,b200,wse-3")


def test_the_command_prints_every_form(capsys, tmp_path) -> None:
    asked = (*ASKED, "--target", "100", "--context", "32k", "--users", "16")
    page = tmp_path / "plan.html"
    table = " ".join(run(capsys, *asked, "--report", str(page)).out.split())
    assert "Cheapest that meets it" in table and "nearest miss" in table
    assert "nameplate" in table and "2.5M USD (an estimate)" in table
    assert "copies x" in table and "target met" in table
    assert "(fitted law)" in table and "half of it written" in table
    assert "<svg" in page.read_text()
    found = pareto("deepseek-v3", "h100-sxm,b200,wse-3", target=100, context="32k", concurrency=16)
    answer = found.to_dict()
    wanted = {
        "hardware", "nodes", "mapping", "users", "tokens_per_s_per_user", "tokens_per_s_per_node",
        "time_to_first_token_s", "dollars_per_million_output_tokens", "joules_per_token", "limit",
    }  # fmt: skip
    assert answer["deployments"] and all(wanted <= d.keys() for d in answer["deployments"])
    assert answer["cheapest"]["tokens_per_s_per_user"]["p50"] >= 100
    assert len(csv_rows(found)) == 1 + len(answer["deployments"])


def test_compare_answers_for_a_target(capsys, tmp_path) -> None:
    asked = ("compare", "llama-3.1-70b", "--hardware", "h100-sxm,wse-3", "--target", "40")
    table = run(capsys, *asked).out
    assert "Cheapest that meets it" in " ".join(table.split()) and "fitted" in table
    answer = json.loads(run(capsys, *asked, "--format", "json").out)
    (plan,) = answer["plans"]
    for machine in plan["machines"]:
        assert machine["fewest"]["nodes"] <= machine["cheapest"]["nodes"]
        assert machine["fewest"]["tokens_per_s_per_user"]["p50"] >= 40
    for result in answer["results"]:
        watts, tokens = result["power_at_load_w"], result["tokens_per_s_all_users"]["p50"]
        assert result["joules_per_token"] == pytest.approx(watts / tokens)
    picture = tmp_path / "plan.svg"
    run(capsys, *asked[:4], "--plot", str(picture))
    assert picture.stat().st_size > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--target", "fast"), "--target"),
        (("--context", "8k", "--prompt", "4k"), "--context"),
        (("--context", "500"), "--context"),
        (("--price", "tpu=3USD/h"), "tpu"),
        (("--ttft", "2 kg"), "--ttft"),
        (("--utilisation", "120%"), "--utilisation"),
    ],
)
def test_wrong_input_is_one_line(capsys, arguments, said) -> None:
    done = run(capsys, *ASKED, *arguments)
    assert done.code == 2 and said in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("limit", [{"max_cost": "2 USD"}, {"max_power": "2 kW"}])
def test_what_solve_emits_predict_says_again(capsys, tmp_path: Path, limit) -> None:
    """Speed, power and cost of a token, with the prompts of others; and the limit is kept."""
    asked = {
        "hardware": "h100-sxm", "nodes": "1:8", "tokens_per_second": 60, "concurrency": 16,
        "weights": "fp8", "prompt": "4k", "output": "500", "architectures": 2,
    }  # fmt: skip
    free, found = solve(**asked), solve(**asked, **limit)
    most = [answer.ranges["total_params"].high.value for answer in (free, found)]
    assert most[1] < most[0] and found.question.prompt_tokens == 4000
    emit(found.architectures, found.question, str(tmp_path))
    files = sorted(tmp_path.glob("*/config.json"))
    assert len(files) == len(found.architectures) == 2
    for file in files:
        about = json.loads(file.read_text())["_archinfer"]
        said = run(capsys, *shlex.split(about["predict"])[1:], "--format", "json")
        (one,) = json.loads(said.out)["results"]
        design = next(d for d in found.architectures if d.total_params == about["total_params"])
        assert one["tokens_per_s"] == pytest.approx(about["tokens_per_s"], rel=1e-6)
        for name in ("power_at_load_w", "dollars_per_million_output_tokens"):
            assert one[name] == pytest.approx(getattr(design, name), rel=1e-6)
        assert one["dollars_per_million_output_tokens"] <= 2.0 or "max_power" in limit
        assert one["power_at_load_w"] <= 2000.0 or "max_cost" in limit


def test_the_best_batch_is_within_a_step_of_the_measured_one() -> None:
    """Of engines' curves with at least four numbers of users, at 20, 50 and 100 tokens/s a user."""
    path = Path(__file__).resolve().parent.parent / "archinfer" / "data" / "serving.csv"
    curves: dict[tuple[str, ...], list[tuple[int, float]]] = {}
    with path.open(encoding="utf-8") as file:
        for r in csv.DictReader(file):
            usable = not r["decode_share"] or float(r["decode_share"]) >= 0.7
            if usable and r["mtp"] == "no" and r["attention_dp"] == "1" and r["pp"] == "1":
                key = tuple(r[k] for k in ("model", "profile", "weights", "isl", "osl", "tp"))
                curves.setdefault(key, []).append(
                    (int(r["concurrency"]), 1e3 / float(r["tpot_ms"]))
                )
    steps = []
    for (model, profile, weights, isl, osl, group), points in curves.items():
        ladder = [0, *sorted({users for users, _ in points})]
        if len(ladder) < 5:
            continue
        prompt, output = int(float(isl)), int(float(osl))
        deployment = Deployment(
            context_tokens=prompt + output // 2, prompt_tokens=prompt, output_tokens=output,
            weights=weights, kv="bf16", layout=Layout(int(group)),
        )  # fmt: skip
        found = {
            n: predict(model, profile, deployment.with_(concurrency=n), changes=False).time.total
            for n in ladder[1:]
        }
        for target in (20, 50, 100):
            measured = max([n for n, speed in points if speed >= target], default=0)
            predicted = max([n for n, s in found.items() if 1.0 / s >= target], default=0)
            steps.append(abs(ladder.index(measured) - ladder.index(predicted)))
    assert len(steps) > 100
    assert np.mean(np.array(steps) <= 1) >= 0.8
