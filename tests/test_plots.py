"""Charts: that they show the exact region, the time and the measurements, with words and units."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archinfer import catalogue
from archinfer.calibration import calibrate as calibration
from archinfer.calibration.design import plan
from archinfer.calibration.fit import Timing
from archinfer.calibration.host import Ceilings
from archinfer.calibration.measure import Shapes
from archinfer.errors import InputError
from archinfer.fitting.validation import PublishedSpeed as Published
from archinfer.fitting.validation import Validation
from archinfer.forward.predict import predict
from archinfer.hardware.profile import Hardware
from archinfer.inference.infer import infer
from archinfer.physics.terms import TERMS
from archinfer.report import plots
from archinfer.report.chart import (
    CIVIDIS,
    Axis,
    Band,
    Bars,
    Box,
    Cells,
    Curve,
    Note,
    Panel,
    Points,
    names_that_fit,
    note_box,
    overlap,
    ticks,
)
from archinfer.report.measured import calibrate_chart, validate_chart
from archinfer.report.nodes_chart import nodes_panel
from archinfer.report.predict_chart import TERM_STYLES, predict_chart, time_panel
from archinfer.report.predict_model import Row
from archinfer.report.sizes_chart import catalogue_points, sizes_panel
from archinfer.report.solve import chart as solve_chart
from archinfer.solver.answer import Answer, answer
from archinfer.solver.constraints import constraints
from archinfer.solver.drawn import drawn
from archinfer.solver.outline import outlines, speed_grid
from archinfer.solver.question import Question
from tests import cli
from tests.test_calibration import FakeBench
from tests.test_validate import TEST_ROWS

pytestmark = pytest.mark.usefixtures("few_draws")

WSE3 = Hardware.load("wse-3")
H100 = Hardware.load("h100-sxm")


@pytest.fixture(scope="module")
def founding() -> Answer:
    return answer(Question(WSE3), 3)


@pytest.fixture(scope="module")
def observed() -> Answer:
    question = Question(WSE3, observed=True, active=(20e9, 400e9))
    return replace(answer(question, 3), posterior=infer(question))


@pytest.fixture(scope="module")
def gpus() -> Answer:
    return answer(Question(H100, nodes=(1, 16), tokens_per_s=60.0), 3)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [Row(n, predict(catalogue.load(n), WSE3)) for n in ("llama-3.1-70b", "kimi-k2")]


def of(panel: Panel, kind: type) -> list:
    return [m for m in panel.marks if isinstance(m, kind)]


@pytest.mark.parametrize("which", ["founding", "observed", "gpus"])
def test_outlines_are_the_union_of_all_slices(which: str, request) -> None:
    """Against the extremes of every slice, none left out; a line's width is the tolerance."""
    region = request.getfixturevalue(which).region
    found = outlines(region, points=9)
    assert [o.weights for o in found] == list(region.question.weights)
    for position, outline in enumerate(found):
        mine = np.flatnonzero(region.slices.weights == position)
        for k, active in enumerate(outline.active):
            low, high = region.total_interval(np.full(len(mine), active), mine)
            real = low <= high
            assert outline.high[k] == pytest.approx(high[real].max(), rel=1e-3)
            assert outline.low[k] == pytest.approx(low[real].min(), rel=1e-3)


def test_edges_name_what_draws_them(founding: Answer) -> None:
    """The largest total of each format is where its outline says capacity."""
    for outline in outlines(founding.region):
        most = founding.by_weights[outline.weights]["total_params"][1]
        top = int(np.argmax(outline.high))
        assert outline.high[top] <= most * (1 + 1e-9)
        assert outline.high[top] == pytest.approx(most, rel=0.05)
        assert outline.high_by[top] == "capacity"
        assert outline.high_by[0] == "sparsity"
        assert set(outline.low_by) == {"definition"}


def test_speed_grid_is_what_the_cost_model_says(founding: Answer) -> None:
    """At least the target wherever feasible, nothing outside the outline, falling with A."""
    active = np.geomspace(1e9, 900e9, 12)
    total = np.geomspace(1e9, 7e12, 14)
    speed = speed_grid(founding.region, active, total)
    assert np.nanmin(speed) >= founding.question.tokens_per_s * (1 - 1e-9)
    outer = outlines(founding.region, points=400)
    high = np.max([np.interp(active, o.active, o.high, right=0.0) for o in outer], axis=0)
    seen = np.isfinite(speed)
    assert seen.any()
    assert not seen[total[:, None] > 1.02 * high].any()
    assert not seen[total[:, None] < 0.999 * active].any()
    best = np.nanmax(np.where(seen, speed, -np.inf), axis=0)
    assert np.all(np.diff(best[np.isfinite(best)]) <= 0.0)


def test_sizes_show_edges_models_and_units(founding: Answer) -> None:
    panel = sizes_panel(founding)
    assert (panel.x.label, panel.y.label) == ("active parameters", "total parameters")
    words = {n.text for n in of(panel, Note)}
    assert {"capacity, bf16", "capacity, fp8", "capacity, nvfp4"} <= words
    kinds = {c.name: c.kind for c in constraints(founding.question)}
    ends = founding.ranges["active_params"]
    for side, bound in (("low", ends.low), ("high", ends.high)):
        by = drawn(founding, "active_params", side, kinds)
        assert f"{bound.by} ({by})" in words
    assert {"sparsity (habit)", "total = active (physics)"} <= words
    cells = of(panel, Cells)[0]
    assert "tokens/s" in cells.label
    assert cells.colours == CIVIDIS
    models = next(p for p in of(panel, Points) if p.label == "open models")
    known = {(a, n) for _, a, n in catalogue_points()}
    assert set(zip(models.x, models.y, strict=True)) <= known
    assert len(models.x) > 20
    assert 3 <= sum(bool(n) for n in models.names) <= 9
    assert not of(panel, Box)


def test_what_the_user_knows_is_a_box(observed: Answer) -> None:
    (box,) = of(sizes_panel(observed), Box)
    assert box.x == (20e9, 400e9)
    assert box.label


def test_density_cells_hold_the_mass_they_say(observed: Answer) -> None:
    cells = of(sizes_panel(observed), Cells)[0]
    active, weights = observed.posterior.density("active_params")
    total, _ = observed.posterior.density("total_params")
    column = np.searchsorted(cells.x, active, side="right") - 1
    row = np.searchsorted(cells.y, total, side="right") - 1
    steps = np.array(cells.steps)
    inside = (column >= 0) & (column < steps.shape[1]) & (row >= 0) & (row < steps.shape[0])
    step = steps[row[inside], column[inside]]
    weights = weights[inside] / weights[inside].sum()
    for limit, mass in enumerate((0.5, 0.9)):
        held = weights[(step >= 0) & (step <= limit)].sum()
        # Smoothing moves a little mass between cells.
        assert held == pytest.approx(mass, abs=0.06)


def test_nodes_panel_states_the_largest_total(founding: Answer) -> None:
    chart = solve_chart(founding)
    panel = chart.rows[0][1]
    assert panel.x.label == "layers"
    assert panel.y.label == "wafers there"
    words = {n.text for n in of(panel, Note)}
    assert {"88 wafers asked", "1 layer a wafer", "2 layers a wafer"} <= words
    steps = np.array(of(panel, Cells)[0].steps)
    # More wafers never hold less.
    assert np.all(np.diff(steps, axis=0) >= 0)
    assert steps.max() == len(CIVIDIS) - 1


def test_posterior_panels_say_what_is_identified(observed: Answer) -> None:
    small = solve_chart(observed).rows[1]
    assert len(small) == 4
    for panel, m in zip(small, observed.posterior.marginals.values(), strict=True):
        verdict = "within x" if m.identified else "by the prior"
        if m.given:
            verdict = "as asked" if "nodes" in panel.x.label else "given by you"
        assert verdict in panel.title
        (points,) = of(panel, Points)
        assert (points.x, points.x_ends) == ([m.p50], ([m.p05], [m.p95]))
        assert "%" in panel.y.label
        for mark in of(panel, Curve):
            # Steps: every bin has two corners of its height.
            assert sum(mark.y) / 2.0 == pytest.approx(100.0, abs=6.0)


def test_no_picture_puts_probability_where_no_draw_is(observed: Answer) -> None:
    chart = solve_chart(observed)
    posterior = observed.posterior
    for panel, name in zip(chart.rows[1], posterior.marginals, strict=True):
        values, weights = posterior.density(name)
        values = values[weights > 0.0]
        (band,) = of(panel, Band)
        half = 0.5 if name in ("layers", "nodes") else 0.0
        filled = [x for x, high in zip(band.x, band.high, strict=True) if high > 0.0]
        assert min(filled) >= values.min() - half
        assert max(filled) <= values.max() + half
        assert sum(band.high) / 2.0 == pytest.approx(100.0, abs=0.01)
    assert max(of(chart.rows[1][3], Band)[0].x) <= observed.question.nodes[1] + 0.5
    cells = of(chart.rows[0][0], Cells)[0]
    steps = np.array(cells.steps)
    total, weights = posterior.density("total_params")
    highest = np.array(cells.y)[1:][(steps >= 0).any(axis=1)].max()
    assert highest <= total[weights > 0.0].max() * (1 + 1e-9)
    # Active parameters cannot exceed the total, and no cell shows that they do.
    assert all(n >= a * (1 - 1e-9) for a, n in cells.clip)


def test_words_on_edges_do_not_lie_on_each_other(
    founding: Answer, observed: Answer, gpus: Answer
) -> None:
    for found in (founding, observed, gpus):
        panel = sizes_panel(found)
        boxes = [note_box(n, panel.x, panel.y) for n in of(panel, Note) if not n.angle]
        assert len(boxes) > 2
        assert not [pair for pair in combinations(boxes, 2) if overlap(*pair)]
        panel = nodes_panel(found)
        boxes = [note_box(n, panel.x, panel.y) for n in of(panel, Note)]
        assert len(boxes) >= 3
        assert not [pair for pair in combinations(boxes, 2) if overlap(*pair)]


def test_waterfall_adds_up(founding: Answer) -> None:
    time_s = founding.architectures[0].time_s
    panel = time_panel("one pass", time_s)
    (bars,) = of(panel, Bars)
    assert panel.x.label.endswith(" in ms")
    # One unit for the axis and all words.
    assert all(" ms" in text for text in bars.texts)
    assert panel.y.categories[-1] == "total"
    assert list(bars.start[1:-1]) == pytest.approx(list(bars.end[:-2]))
    assert bars.end[-2] == pytest.approx(bars.end[-1])
    assert bars.end[-1] == pytest.approx(1e3 * time_s["total"])
    lengths = [e - s for s, e in zip(bars.start[:-1], bars.end[:-1], strict=True)]
    assert lengths == sorted(lengths, reverse=True)
    assert [1e3 * time_s[t] for t in panel.y.categories[:-1]] == pytest.approx(lengths)


def test_several_models_share_one_panel(rows: list[Row]) -> None:
    times, speeds = predict_chart(rows).rows[0]
    assert times.y.categories == ("llama-3.1-70b", "kimi-k2")
    marks = of(times, Bars)
    assert {m.label for m in marks} <= set(TERM_STYLES)
    for i, row in enumerate(rows):
        parts = sum(m.end[i] - m.start[i] for m in marks)
        assert parts == pytest.approx(1e3 * float(row.result.time.total))
    (points,) = of(speeds, Points)
    assert points.x == [row.plain_speed[1] for row in rows]
    assert speeds.x.label == "tokens/s of one user"


def test_styles_are_told_apart_in_grey_print() -> None:
    assert tuple(TERM_STYLES) == TERMS
    assert len(set(TERM_STYLES.values())) == len(TERM_STYLES)
    assert len({hatch for _, hatch in TERM_STYLES.values()}) == len(TERM_STYLES)
    channels = [[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in CIVIDIS]
    lightness = [0.2126 * r**2.2 + 0.7152 * g**2.2 + 0.0722 * b**2.2 for r, g, b in channels]
    assert np.all(np.diff(lightness) > 0.01)


@given(
    low=st.floats(1e-9, 1e15),
    ratio=st.floats(1.05, 1e9),
    log=st.booleans(),
    most=st.integers(3, 9),
)
def test_ticks_lie_on_the_axis(low: float, ratio: float, log: bool, most: int) -> None:
    axis = Axis("", low, low * ratio, log)
    places = [v for v, _ in ticks(axis, most)]
    assert 1 <= len(places) <= 2 * most
    assert places == sorted(set(places))
    assert all(low * (1 - 1e-6) <= v <= low * ratio * (1 + 1e-6) for v in places)
    assert all(-1e-6 <= axis.fraction(v) <= 1 + 1e-6 for v in places)


def test_names_do_not_cover_each_other() -> None:
    axis = Axis("", 1.0, 100.0)
    shown = [("first", 10.0, 10.0), ("second", 10.1, 10.0), ("third", 10.0, 50.0)]
    assert names_that_fit(shown, axis, axis, (), 9) == ["first", "", "third"]
    assert names_that_fit(shown, axis, axis, (), 1) == ["first", "", ""]
    note = Note(10.0, 10.0, "a long note", "start")
    assert names_that_fit(shown, axis, axis, (note,), 9) == ["", "", "third"]


def published(observed: float, median: float, roofline: float) -> Published:
    spread = {"p05": 0.5, "p25": 0.8, "p50": 1.0, "p75": 1.25, "p95": 2.0}
    return Published(
        id=f"row-{observed:g}",
        model=f"model-{observed:g}",
        hardware="wse-3",
        observed=observed,
        predicted={k: v * median for k, v in spread.items()},
        ratio=observed / median,
        nodes=(1.0, 1.0),
        speculative=None,
        fits=True,
        counted=True,
        baselines={"roofline": roofline, "constant_per_layer": 1.5 * median},
    )


def test_validation_shows_intervals_and_baselines() -> None:
    rows = [(100.0, 120.0, 1e5), (300.0, 100.0, 2e5), (5000.0, 5000.0, 5e6)]
    found = Validation("made up", [published(*row) for row in rows])
    scatter, errors = validate_chart(found).panels
    points = {p.label.split(" (")[0]: p for p in of(scatter, Points)}
    assert points["inside its 90 % interval"].x == [100.0, 5000.0]
    assert points["inside its 90 % interval"].y_ends == ([60.0, 2500.0], [240.0, 10000.0])
    assert points["outside"].names == ["model-300"]
    assert points["constant time a layer"].y == [180.0, 150.0, 7500.0]
    (factors,) = of(errors, Points)
    assert errors.y.categories == ("archinfer", "constant time a layer", "bandwidth roofline")
    assert factors.x == pytest.approx([1.2, 1.8, 1000.0])
    assert factors.x_ends[1] == pytest.approx([3.0, 2.0, 1000.0])
    with pytest.raises(InputError, match="nothing to draw"):
        validate_chart(Validation("made up", []))


def test_calibration_shows_residuals_and_roofline() -> None:
    points = plan(4e9, True).points
    rate = {p: 100.0 + 10.0 * i for i, p in enumerate(points)}
    fitted = tuple(Timing(p, rate[p], 1.1 * rate[p]) for p in points if not p.heldout)
    heldout = tuple(Timing(p, rate[p], 0.8 * rate[p]) for p in points if p.heldout)
    host = SimpleNamespace(cpu="a CPU", cores=2, date="2026-01-01", ceilings=Ceilings(1e10, 1e11))
    run = SimpleNamespace(
        fitted=Shapes(fitted, 0.1), heldout=Shapes.unseen(heldout), host=host, rounds=3
    )
    found = SimpleNamespace(run=run)
    chart = calibrate_chart(found)  # type: ignore[arg-type]
    measured, residuals, roofline = chart.panels
    assert measured.x.label == "measured tokens/s of one sequence"
    (bars,) = of(residuals, Bars)
    lengths = [e if e > 0 else s for s, e in zip(bars.start, bars.end, strict=True)]
    assert lengths == pytest.approx([10.0] * len(fitted) + [-20.0] * len(heldout))
    assert (roofline.x.label, roofline.y.label) == ("FLOPs per byte", "GFLOP/s")
    (roof,) = of(roofline, Curve)
    assert max(roof.y) == pytest.approx(100.0)
    assert roof.y[0] == pytest.approx(10.0 * roof.x[0])
    # Float32 weights used once: two FLOPs for four bytes, more where a batch shares them.
    assert min(of(roofline, Points)[0].x) == pytest.approx(0.5, rel=0.05)
    assert "a CPU" in chart.caption


def test_matplotlib_draws_what_the_chart_says(observed: Answer, rows: list[Row]) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")
    chart = solve_chart(observed)
    made = plots.figure(chart)
    axes = {a.get_gid(): a for a in made.axes if a.get_gid()}
    assert set(axes) == {p.title for p in chart.panels}
    assert chart.title in made.get_suptitle().replace("\n", " ")
    assert "Sources: archinfer hardware show wse-3" in made.get_supxlabel().replace("\n", " ")
    for panel in chart.panels:
        drawn = axes[panel.title]
        assert drawn.get_xlabel() == panel.x.label
        assert drawn.get_ylabel() == panel.y.label
        assert drawn.get_xscale() == ("log" if panel.x.log else "linear")
        assert drawn.get_xlim() == pytest.approx((panel.x.low, panel.x.high))
        told = {t.get_text() for t in drawn.texts}
        assert {n.text for n in of(panel, Note)} <= told
        labels = drawn.get_legend_handles_labels()[1]
        named = {m.label for m in panel.marks if not isinstance(m, Cells | Note)}
        assert set(labels) == named - {""}
    bars = plots.figure(predict_chart(rows)).axes[0]
    assert [t.get_text() for t in bars.get_yticklabels()] == ["llama-3.1-70b", "kimi-k2"]
    assert sum(len(c) for c in bars.containers) == 2 * len(of(predict_chart(rows).panels[0], Bars))


@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".PDF", b"%PDF")]
)
def test_files_are_whole_and_the_same_each_time(tmp_path, rows: list[Row], suffix, start) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")
    chart = predict_chart(rows[:1])
    path = tmp_path / f"a{suffix}"
    path.write_text("older")
    plots.save(chart, str(path))
    first = path.read_bytes()
    assert first.startswith(start)
    plots.save(chart, str(path))
    assert path.read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    if suffix == ".svg":
        assert b"time of one pass in" in first


def test_wrong_files_are_one_clear_line(tmp_path, monkeypatch, capsys) -> None:
    for arguments, words in (
        (["--plot", "x.gif"], "expected a file ending in .png, .svg or .pdf, found 'x.gif'"),
        (["--plot", str(tmp_path / "no" / "x.png")], "there is no folder"),
        (["--report", "x.txt"], "expected a file ending in .html"),
        (["--report", str(tmp_path / "no" / "x.html")], "there is no folder"),
    ):
        done = cli.run(capsys, "solve", *arguments)
        assert (done.code, done.out) == (2, "")
        assert words in done.err
        assert done.err.count("\n") == 1
    monkeypatch.setattr("archinfer.cli.output.find_spec", lambda name: None)
    done = cli.run(capsys, "solve", "--plot", str(tmp_path / "x.png"))
    assert done.code == 2
    assert "pip install 'archinfer[plot]'" in done.err
    assert not list(tmp_path.iterdir())


def test_commands_draw(tmp_path, capsys) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")
    from matplotlib.image import imread

    picture = tmp_path / "a.png"
    done = cli.run(capsys, "solve", "--layers", "60:62", "--plot", str(picture))
    assert (done.code, done.err) == (0, f"wrote {picture}\n")
    assert done.out.startswith("Which models fit")
    height, width = imread(io.BytesIO(picture.read_bytes())).shape[:2]
    assert width > height > 400
    assert math.isclose(width, 13.5 * 150, rel_tol=0.01)
    none = tmp_path / "none.png"
    done = cli.run(capsys, "solve", "--nodes", "1", "--total", "3T:", "--plot", str(none))
    assert done.code == 0
    assert "nothing to draw" in done.err
    assert not none.exists()


def test_calibrate_and_validate_draw(tmp_path, capsys, monkeypatch) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")
    monkeypatch.setattr(calibration, "Bench", lambda *_, **__: FakeBench(0.01))
    picture = tmp_path / "calibrate.svg"
    done = cli.run(capsys, "calibrate", "--quick", "--plot", str(picture))
    assert done.code == 0
    assert done.err.endswith(f"wrote {picture}\n")
    text = picture.read_text(encoding="utf-8")
    for words in ("GFLOP/s", "held-out shapes", "measured tokens/s of one sequence"):
        assert f">{words}<" in text
    rows = tmp_path / "rows.yaml"
    rows.write_text(TEST_ROWS)
    picture = tmp_path / "validate.svg"
    done = cli.run(
        capsys, "validate", "--test", str(rows), "--no-inverse", "--floor", "0",
        "--plot", str(picture),
    )  # fmt: skip
    assert done.code == 0
    text = picture.read_text(encoding="utf-8")
    for words in ("published tokens/s of one user", "bandwidth roofline", "archinfer"):
        assert f">{words}<" in text
