"""The HTML reports: well-formed, escaped, accessible, self-contained; and in a real browser.

The browser tests need Debian's package chromium and Playwright's Python package (the extra
`browser`). Where one is missing they are skipped, or fail if ARCHINFER_BROWSER is "required".
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from archinfer import catalogue
from archinfer.calibration.calibrate import Calibration, calibrate
from archinfer.calibration.measure import Settings
from archinfer.fitting.validation import Validation
from archinfer.forward.predict import predict
from archinfer.hardware.profile import Hardware
from archinfer.inference.infer import infer
from archinfer.physics.deployment import Deployment
from archinfer.report import calibrate as measured
from archinfer.report import solve as told
from archinfer.report import validation as published_speeds
from archinfer.report.ends import identified_words, plain_name
from archinfer.report.html import to_page
from archinfer.report.markup import VOID, Markup, el, join
from archinfer.report.predict import document
from archinfer.report.predict_model import Row
from archinfer.solver.answer import Answer, answer
from archinfer.solver.drawn import drawn, kinds, kinds_of
from archinfer.solver.question import Question
from archinfer.solver.region import solve
from archinfer.words import compact
from tests import cli
from tests.test_calibration import FakeBench
from tests.test_plots import published

pytestmark = pytest.mark.usefixtures("few_draws")

WSE3 = Hardware.load("wse-3")
HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"
CHROMIUM = Path("/usr/bin/chromium")


def _target() -> Answer:
    return answer(Question(WSE3))


def _observed() -> Answer:
    question = Question(WSE3, observed=True, total=(2e12, 4e12), overrides=(HOSTILE,))
    return replace(answer(question, 4), posterior=infer(question))


def _rows() -> list[Row]:
    asked = Deployment(accepted_low=1.0, accepted_high=3.0)
    names = ("llama-3.1-70b", "kimi-k2", "gpt-oss-120b")
    rows = [Row(n, predict(catalogue.load(n), WSE3, asked)) for n in names]
    rows[0] = replace(rows[0], name=HOSTILE, notes=(HOSTILE,))
    small = replace(asked, nodes=1)
    return [*rows, Row("too-large", predict(catalogue.load("kimi-k2"), WSE3, small))]


def _validated() -> Validation:
    rows = [(100.0, 120.0, 1e5), (300.0, 100.0, 2e5), (5000.0, 5000.0, 5e6)]
    hostile = replace(published(200.0, 210.0, 1e5), id=HOSTILE)
    return Validation("made up", [*(published(*row) for row in rows), hostile])


def _calibrated() -> Calibration:
    return calibrate(Settings(quick=True, memory_bytes=1.5e9), FakeBench())


def solve_page(found: Answer, command: str = "") -> str:
    return to_page(told.document(found), command)


def validate_page(found: Validation, command: str = "") -> str:
    return to_page(published_speeds.document(found, ""), command)


def calibrate_page(found: Calibration, command: str = "") -> str:
    return to_page(measured.document(found), command)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    nothing = answer(Question(WSE3, nodes=(1, 1), total=(3e12, 4e12)))
    one = Row("gpt-oss-120b", predict(catalogue.load("gpt-oss-120b"), WSE3))
    return {
        "target": solve_page(_target(), "archinfer solve"),
        "observed": solve_page(_observed(), f"archinfer solve {shlex.quote(HOSTILE)}"),
        "nothing": solve_page(nothing, "archinfer solve --nodes 1 --total 3T:4T"),
        "models": to_page(document(_rows(), (HOSTILE,)), "archinfer predict a b c"),
        "one": to_page(document([one])),
        "validated": validate_page(_validated(), "archinfer validate"),
        "calibrated": calibrate_page(_calibrated(), "archinfer calibrate"),
    }


class Reader(HTMLParser):
    """Checks that tags balance and collects elements and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> repeats an attribute"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def words(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]


PAGES = ("target", "observed", "nothing", "models", "one", "validated", "calibrated")


@pytest.mark.parametrize("name", PAGES)
def test_page_is_well_formed_and_accessible(pages: dict[str, str], name: str) -> None:
    page = Reader(pages[name])
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("title")) >= 1
    levels = [int(t[1]) for t, _ in page.elements if re.fullmatch("h[1-6]", t)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(a.get("scope") in ("col", "row") for a in page.all("th"))
    assert all(a.get("aria-label") for a in page.all("table"))
    for picture in page.all("svg"):
        assert picture["role"] == "img"
        ids = str(picture["aria-labelledby"]).split()
        assert {i for t in ("title", "desc") for i in (a.get("id") for a in page.all(t))} >= set(
            ids
        )
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for value in attributes.values():
            for reference in re.findall(r"url\(#([^)]*)\)", value or ""):
                assert reference in ids


@pytest.mark.parametrize("name", PAGES)
def test_page_refers_to_nothing_outside(pages: dict[str, str], name: str) -> None:
    page = Reader(pages[name])
    assert not {t for t, _ in page.elements} & {"img", "iframe", "object", "embed", "base", "form"}
    for tag, attributes in page.elements:
        for key, value in attributes.items():
            assert not key.startswith("on"), f"inline handler on <{tag}>"
            assert key not in ("style", "src", "srcset", "action", "xlink:href")
            if key == "href":
                assert value == "data:,"
    (style,) = page.words("style")
    assert "url(" not in style
    assert "@import" not in style
    policy = next(str(a["content"]) for a in page.all("meta") if a.get("http-equiv") is not None)
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", ["observed", "models", "validated"])
def test_names_are_shown_as_text(pages: dict[str, str], name: str) -> None:
    page = Reader(pages[name])
    assert len(page.all("script")) == 1
    assert "alert(1)" not in page.words("script")[0]
    assert any(HOSTILE in text for tag, text in page.texts if tag != "script")
    assert HOSTILE not in pages[name]


def test_target_page_says_what_is_pinned_by_what() -> None:
    found = _target()
    text = solve_page(found, "archinfer solve --nodes 88")
    page = Reader(text)
    shown = " ".join(text for _, text in page.texts)
    assert "Which models fit" in page.words("h1")[0]
    for interval in found.ranges.values():
        for bound in (interval.low, interval.high):
            assert f"{plain_name(bound.by)} " in shown
    assert "pinned from above by physics" in shown
    assert "not pinned by the hardware or the speed" in shown
    assert "the speed hardly changes" in shown
    _, same, _ = found.sensitivity[0].tokens_per_s
    assert f"As is: {same:,.0f}, times {750 / same:.2f} accepted tokens a pass = 750" in shown
    assert "archinfer solve --nodes 88" in page.words("code")
    for figure in WSE3.provenance:
        assert figure.key in shown
        assert figure.source in shown
    assert text.count('<tr><th scope="row" class="n"') == len(found.architectures)


def test_observed_page_says_what_is_not_identified() -> None:
    found = _observed()
    shown = " ".join(text for _, text in Reader(solve_page(found)).texts)
    for m in found.posterior.marginals.values():
        bits = f"{m.information_bits:.1f} bits learnt"
        if not m.given:
            assert bits in shown
    assert "nearly as asked" in shown
    for m in found.posterior.marginals.values():
        if not m.given:
            assert ("pinned within" in identified_words(m)) == (m.p95 / m.p05 < 2.0)
            assert ("narrowed within" in identified_words(m)) == (2.0 <= m.p95 / m.p05 < 5.0)
            assert identified_words(m).endswith("by the prior") == (not m.identified)
            assert identified_words(m) in shown
    assert "given by you" in shown
    assert "Which fact would narrow it" in shown
    assert "Reproduce" not in shown


def lead(text: str) -> dict[str, str]:
    """The labelled sentences at the top of a page."""
    (box,) = re.findall(r'<div class="answer">(.*?)</div>', text, re.DOTALL)
    found = re.findall(r"<li><strong>(.*?): </strong>(.*?)</li>", box)
    return {label: unescape(words) for label, words in found}


def test_a_target_page_opens_with_the_answer() -> None:
    found = _target()
    told = lead(solve_page(found))
    assert list(told) == ["The largest", "At most", "The speed hardly tells", "How sure"]
    total = found.ranges["total_params"].high
    assert (total.by, compact(total.value)) == ("capacity", "6.26T")
    assert told["At most"].startswith("6.26T total (capacity), or ")
    assert told["At most"].endswith("or 126 layers (depth)")
    assert told["The speed hardly tells"] == "total (x 2: same speed)"
    p05, _, p95 = found.architectures[0].speed
    assert f"speeds within x {(p95 / p05 / 3.0) ** 0.5:.2g} (90 %)" in told["How sure"]


def test_an_observed_page_opens_with_what_is_likely() -> None:
    found = _observed()
    told = lead(solve_page(found))
    assert list(told) == ["Most likely", "With 90 %", "Told", "How sure"]
    for name, m in found.posterior.marginals.items():
        assert compact(getattr(found.posterior.most_likely, name), 2) in told["Most likely"]
        if name != "nodes":
            word = {"total_params": "total", "active_params": "active"}.get(name, name)
            assert f"{word} {compact(m.p05)} to {compact(m.p95)}" in told["With 90 %"]
            assert (word in told["Told"]) == (not m.given)
            width = "" if m.given else f" (x {m.p95 / m.p05:.2g})"
            assert f"{word}{width}" in told["How sure"]


def test_an_end_is_physics_only_where_it_stays_without_habits() -> None:
    """Against the question asked again without habits."""
    found = _observed()
    known = kinds(found.question)
    free = solve(found.question.with_(habits=None))
    by_hand = {
        "total_params": (free.total_low.min(), free.total_high.max()),
        "active_params": (free.active_low.min(), free.active_high.max()),
        "layers": (free.slices.layers.min(), free.slices.layers.max()),
        "nodes": (88.0, 88.0),
    }
    shown = " ".join(text for _, text in Reader(solve_page(found)).texts)
    seen = set()
    for name, interval in found.ranges.items():
        for side, end, other in zip(
            ("low", "high"), (interval.low, interval.high), by_hand[name], strict=True
        ):
            by = drawn(found, name, side, known)
            seen.add(by)
            if by == "physics":
                assert other == pytest.approx(end.value, rel=0.02)
            if by == "within habits":
                assert other != pytest.approx(end.value, rel=0.02)
                assert f"({compact(other)} without habits)" in shown
            if by == "habit":
                assert set(kinds_of(end.by, known)) == {"habit"}
    active = found.ranges["active_params"].high
    assert active.by == "speed"
    assert drawn(found, "active_params", "high", known) == "within habits"
    assert {"within habits", "habit"} <= seen


def test_without_habits_every_end_is_physics() -> None:
    found = answer(Question(WSE3, habits=None, layers=(40, 88)), 0)
    assert lead(solve_page(found))["At most"].startswith("6.26T total (capacity)")
    known = kinds(found.question)
    # The floor of the search is no law of nature.
    ends = {drawn(found, name, side, known) for name in found.ranges for side in ("low", "high")}
    assert ends == {"physics", ""}


def test_a_question_that_gives_everything_still_says_how_sure() -> None:
    question = Question(
        WSE3, observed=True, total=(2e12, 2e12), active=(120e9, 120e9), layers=(100, 100)
    )
    found = replace(answer(question, 0), posterior=infer(question))
    assert not found.architectures
    told = lead(solve_page(found))
    assert "120B active, 100 layers" in told["Most likely"]
    assert told["How sure"] == "total, active and layers given, at 90 %"
    assert found.posterior.marginals["nodes"].given
    assert "by the nodes" not in solve_page(found)


def test_measured_pages_say_how_far_off_they_are() -> None:
    shown = validate_page(_validated())
    assert "3 of 4 published speeds lie in their 90 % interval" in shown
    # Errors 0.05, 0.2, 2 and 0: the median is their mean in the middle.
    assert "error of the median prediction: median 12 %, worst 200 %" in shown
    assert "made up" in shown
    found = _calibrated()
    shown = calibrate_page(found)
    assert f"median error {100 * found.run.heldout.median_error:.1f} %" in shown
    assert "Seconds per byte" in shown


def test_infeasible_page_says_what_would_open_it(pages: dict[str, str]) -> None:
    page = Reader(pages["nothing"])
    assert any(t.startswith("Nothing is feasible") for t in page.words("p"))
    assert "What would open it" in page.words("h2")
    found = answer(Question(WSE3, nodes=(1, 1), total=(3e12, 4e12)))
    assert found.conflict is not None
    ways = [" and ".join(r.constraints) for r in found.conflict.relaxations]
    assert page.words("strong") == ways != []
    shown = " ".join(text for _, text in page.texts)
    assert all(r.text in shown for r in found.conflict.relaxations)
    assert not page.all("svg")


def test_predict_page_holds_every_model(pages: dict[str, str]) -> None:
    page = Reader(pages["models"])
    answers = [t for t in page.words("p") if "tokens/s for one user without speculation" in t]
    assert len(answers) == 3
    assert any(t.startswith("too-large does not fit on 1 wafer") for t in page.words("p"))
    assert {"kimi-k2", "too-large"} <= set(page.words("h3"))
    assert "reductions" in page.words("th")
    assert "archinfer predict a b c" in page.words("code")


def test_markup_escapes_all_but_markup() -> None:
    assert el("p", "a<b & c", class_='"x"') == '<p class="&quot;x&quot;">a&lt;b &amp; c</p>'
    assert el("p", el("b", "<"), ["&", Markup("<i>")]) == "<p><b>&lt;</b>&amp;<i></p>"
    assert el("td", "1", scope=None, hidden=True, data_v=1234567.0) == (
        '<td hidden data-v="1.23457e+06">1</td>'
    )
    assert el("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert join("<", [Markup("<")]) == "&lt;<"


def _ratio(one: str, other: str) -> float:
    """Contrast as WCAG 2.1 defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_of_text_is_at_least_aa_in_both_schemes(pages: dict[str, str]) -> None:
    (style,) = Reader(pages["target"]).words("style")
    schemes = re.findall(r":root \{([^}]*--paper[^}]*)\}", style)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", scheme))
        pairs = [(c, "paper") for c in ("ink", "soft", "accent", "habit")]
        pairs += [("ink", "tint")]
        pairs += [(kind, f"{kind}-bg") for kind in ("physics", "habit", "request")]
        for text, ground in pairs:
            assert _ratio(colours[text], colours[ground]) >= 4.5, (text, ground)


def test_command_writes_the_page_and_how_to_make_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a b.html"
    arguments = ["solve", "--layers", "60:62", "--set", "link.latency=2 us", "--report", str(path)]
    done = cli.run(capsys, *arguments)
    assert (done.code, done.err) == (0, f"wrote {path}\n")
    page = Reader(path.read_text(encoding="utf-8"))
    (command,) = page.words("code")
    assert shlex.split(command) == ["archinfer", *arguments]
    assert any("link.latency = 2 us (set by hand)" in text for _, text in page.texts)
    done = cli.run(capsys, "predict", "gpt-oss-120b", "--report", str(path), "--format", "json")
    assert (done.code, done.err) == (0, f"wrote {path}\n")
    assert "How fast: gpt-oss-120b" in path.read_text(encoding="utf-8")


def _missing() -> str:
    if importlib.util.find_spec("playwright") is None:
        return "the extra 'browser' (Playwright) is not installed"
    if not CHROMIUM.exists():
        return f"{CHROMIUM} is not installed (Debian's package chromium)"
    return ""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    missing = _missing()
    if missing and os.environ.get("ARCHINFER_BROWSER") == "required":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking"]  # fmt: skip
    # Without a profile folder of ours, Playwright makes an empty one and removes it.
    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        yield started
        started.close()


@pytest.fixture(scope="module")
def files(pages: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {name: folder / f"{name}.html" for name in pages}
    for name, path in made.items():
        path.write_text(pages[name], encoding="utf-8")
    return made


# Elements that reach over the right edge without being inside a container that scrolls.
OVERFLOWING = """
() => [...document.querySelectorAll("body *")].filter((e) => {
  const box = e.getBoundingClientRect();
  return box.width > 0 && box.right > innerWidth + 1 && !e.closest(".scroll");
}).map((e) => e.tagName + " " + (e.textContent ?? "").slice(0, 40))
"""


def _load(browser: Any, path: Path, width: int, scheme: str) -> tuple[Any, list[str]]:
    """A page, and whatever went wrong or was requested while it loaded."""
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    seen: list[str] = []
    page.on("console", lambda message: seen.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: seen.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on(
        "request",
        lambda r: None if r.url == path.as_uri() else seen.append(f"request: {r.url}"),
    )
    page.goto(path.as_uri())
    page.wait_for_load_state("load")
    return page, seen


@pytest.mark.parametrize("name", PAGES)
def test_browser_shows_it_without_errors_requests_or_overflow(
    browser: Any, files: dict[str, Path], name: str
) -> None:
    grounds = {}
    for width, scheme in ((360, "light"), (1400, "dark")):
        page, seen = _load(browser, files[name], width, scheme)
        assert seen == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(OVERFLOWING) == []
        for picture in page.query_selector_all("svg.chart:visible"):
            box = picture.bounding_box()
            assert box["width"] > 150
            assert box["height"] > 60
        grounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.close()
    assert grounds["light"] == "rgb(255, 255, 255)"
    assert max(int(v) for v in re.findall(r"\d+", grounds["dark"])) < 64


# Words of pictures that lie on one another, or outside of their picture; in picture units.
CROWDED = """
() => [...document.querySelectorAll("svg.chart")].flatMap((svg) => {
  const whole = svg.getBoundingClientRect();
  if (!whole.width) return [];
  const grain = whole.width / svg.viewBox.baseVal.width;
  const words = [...svg.querySelectorAll("text")].map((e) => [e, e.getBoundingClientRect()]);
  const within = (b) => b.left >= whole.left - 1 && b.right <= whole.right + 1
    && b.top >= whole.top - 1 && b.bottom <= whole.bottom + 1;
  const lost = words.filter(([, b]) => !within(b)).map(([e]) => "outside: " + e.textContent);
  const hits = words.flatMap(([one, a], i) => words.slice(i + 1).filter(([, b]) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3 * grain
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 5 * grain
  ).map(([other]) => one.textContent + " on " + other.textContent));
  return [...lost, ...hits];
})
"""

# Pixels of the smallest letters in pictures.
LETTERS = """
() => Math.min(...[...document.querySelectorAll("svg.chart text")].map((e) => {
  const svg = e.closest("svg"), width = svg.getBoundingClientRect().width;
  return width ? e.getAttribute("font-size") * width / svg.viewBox.baseVal.width : 99;
}))
"""

# Cells of tables whose words are cut off; on a phone each value has its heading before it.
CUT = """
() => [...document.querySelectorAll("th, td")].filter(
  (e) => e.scrollWidth > e.clientWidth + 1 && !e.closest("table.blocks > thead")
).map((e) => e.textContent)
"""


@pytest.mark.parametrize("name", ["target", "observed", "models", "validated"])
def test_browser_shows_pictures_whole_in_light_and_dark(
    browser: Any, files: dict[str, Path], name: str
) -> None:
    grounds = set()
    for width, scheme in ((390, "light"), (1280, "dark")):
        page, seen = _load(browser, files[name], width, scheme)
        folded = page.evaluate("document.documentElement.scrollHeight")
        page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
        assert page.evaluate("document.documentElement.scrollHeight") > 1.1 * folded
        assert page.evaluate(OVERFLOWING) == []
        assert page.evaluate(CROWDED) == []
        assert page.evaluate(CUT) == []
        assert page.evaluate(LETTERS) >= 10.0
        for picture in page.query_selector_all("svg.chart:visible"):
            box = picture.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= width
            grounds.add((scheme, picture.evaluate("(e) => getComputedStyle(e).backgroundColor")))
        assert seen == []
        page.close()
    (light,), (dark,) = ({c for s, c in grounds if s == which} for which in ("light", "dark"))
    assert light == "rgb(255, 255, 255)"
    assert max(int(v) for v in re.findall(r"\d+", dark)) < 64


A4 = {"width": 703, "height": 1032}
"""Pixels of CSS inside the margins of a sheet: 210 x 297 mm without 12 mm on each side."""


@pytest.mark.parametrize("name", ["target", "observed", "validated"])
def test_a_sheet_of_paper_has_all_columns_and_all_that_is_folded(
    browser: Any, files: dict[str, Path], name: str
) -> None:
    page, _ = _load(browser, files[name], A4["width"], "dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    reach = "() => [...document.querySelectorAll('td, th, svg, p')].map("
    reach += "(e) => e.getBoundingClientRect().right)"
    assert max(page.evaluate(reach)) <= A4["width"] + 1
    assert page.evaluate(CUT) == []
    ground = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper')")
    assert ground.strip() == "#ffffff"
    page.close()


def test_browser_sorts_by_mouse_and_by_keyboard(browser: Any, files: dict[str, Path]) -> None:
    page, seen = _load(browser, files["target"], 1400, "light")
    table = page.locator("table.sortable")
    heads = table.locator("thead th")
    names = [head.inner_text() for head in heads.all()]
    assert "layers" in names
    column = names.index("layers")

    def shown() -> list[str]:
        return table.locator(f"tbody tr > :nth-child({column + 1})").all_inner_texts()

    before = shown()
    ascending = sorted(before, key=int)
    button = heads.nth(column).locator("button")
    button.click()
    assert shown() == ascending
    assert heads.nth(column).get_attribute("aria-sort") == "ascending"
    button.focus()
    page.keyboard.press("Enter")
    assert shown() == ascending[::-1]
    assert heads.nth(column).get_attribute("aria-sort") == "descending"
    # Figures sort by size, not by spelling: 6.2T above 569B.
    heads.nth(0).locator("button").click()
    totals = table.locator("tbody tr > :first-child")
    values = [float(t.get_attribute("data-v") or "nan") for t in totals.all()]
    assert values == sorted(values)
    assert len(values) == len(before) > 2
    marked = [h.get_attribute("aria-sort") for h in heads.all()]
    assert marked == ["ascending", *[None] * (len(names) - 1)]
    # By words where there are no figures.
    last = len(names) - 1
    heads.nth(last).locator("button").press("Space")
    words = table.locator("tbody tr > :last-child").all_inner_texts()
    assert words == sorted(words)
    assert seen == []
    page.close()


def test_browser_shows_both_ends_of_a_range_on_a_phone(
    browser: Any, files: dict[str, Path]
) -> None:
    page, _ = _load(browser, files["target"], 360, "light")
    table = page.locator("table").first
    cells = table.locator("tbody td, tbody th").all()
    assert len(cells) == 4 * 4
    for cell in cells:
        box = cell.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    labels = table.locator("tbody tr").first.locator("td").all()
    assert [c.get_attribute("data-label") for c in labels] == [
        "verdict", "at least, set by", "at most, set by",
    ]  # fmt: skip
    # Laid out as blocks it is still a table to those who listen to it.
    assert page.get_by_role("table", name=re.compile("^Ranges are exact")).count() == 1
    assert page.get_by_role("rowheader", name="layers").count() >= 1
    page.close()
    wide, _ = _load(browser, files["target"], 1400, "light")
    row = wide.locator("table").first.locator("tbody tr").first
    tops = {round(c.bounding_box()["y"]) for c in row.locator("td, th").all()}
    assert len(tops) == 1
    wide.close()
