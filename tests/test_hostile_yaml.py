"""Every way we know to spoil a profile: one line, the right file, line and key, no traceback."""

from collections.abc import Callable
from pathlib import Path

import pytest

from archinfer.errors import FileError
from archinfer.hardware.profile import Hardware

WSE_3 = (Path(__file__).parent / "fixtures" / "profile.yaml").read_text()
MATRIX = "covariance:\n  names: [NAMES]\n  log_covariance: ROWS\n  source: x\n"


def line_of(text: str) -> int:
    """1-based line of the profile that starts with a text (indentation apart)."""
    lines = WSE_3.splitlines()
    return next(i for i, line in enumerate(lines, start=1) if line.strip().startswith(text))


def swap(old: str, new: str) -> Callable[[], bytes]:
    assert old in WSE_3, old
    return lambda: WSE_3.replace(old, new, 1).encode()


def drop(start: str, end: str) -> Callable[[], bytes]:
    i = WSE_3.index(start)
    j = WSE_3.index(end, i)
    return lambda: (WSE_3[:i] + WSE_3[j:]).encode()


def add(text: str) -> Callable[[], bytes]:
    return lambda: (WSE_3 + text).encode()


def matrix(names: str, rows: str) -> Callable[[], bytes]:
    return add(MATRIX.replace("NAMES", names).replace("ROWS", rows))


END = len(WSE_3.splitlines())
CAPACITY = line_of("value: 44 GB")
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{c}: &{c} [{','.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)

CASES: dict[str, tuple[Callable[[], bytes], int | None, str]] = {
    "wrong unit": (swap("44 GB", "44 GX"), CAPACITY, "'memory.capacity.value': found '44 GX', "
                   "expected a quantity in bytes such as '44 GB'"),
    "unit of another kind": (swap("44 GB", "44 GB/s"), CAPACITY, "expected a quantity in bytes"),
    "bits for bytes": (swap("44 GB", "44 Gb"), CAPACITY, "expected a quantity in bytes"),
    "no unit": (swap("44 GB", "44"), CAPACITY, "found 44, expected a quantity in bytes"),
    "negative": (swap("44 GB", "-44 GB"), CAPACITY, "found '-44 GB'"),
    "zero": (swap("44 GB", "0 GB"), CAPACITY, "expected more than 0 B"),
    "overflow": (swap("44 GB", "1e308 TB"), CAPACITY, "expected a quantity in bytes"),
    "NaN": (swap("44 GB", ".nan"), CAPACITY, "finite"),
    "infinity": (swap("44 GB", ".inf"), CAPACITY, "finite"),
    "NaN as text": (swap("44 GB", "'NaN GB'"), CAPACITY, "found 'NaN GB'"),
    "boolean": (swap("44 GB", "true"), CAPACITY, "found true"),
    "list": (swap("44 GB", "[44, GB]"), CAPACITY, "found a list"),
    "nothing": (swap("44 GB", ""), CAPACITY, "found nothing"),
    "fraction above one": (swap("91 %", "191 %"), line_of("value: 91 %"), "at most 100 %"),
    "half a core": (swap("893064", "893064.5"), line_of("value: 893064"), "a whole number"),
    "typo in a key": (
        swap("  capacity:", "  capacty:"),
        line_of("capacity:"),
        "unknown key 'memory.capacty'; did you mean 'capacity'?",
    ),
    "typo in an optional key": (swap("note:", "notte:"), CAPACITY + 2,
                                "unknown key 'memory.capacity.notte'; did you mean 'note'?"),
    "unknown section": (add("networking: 5\n"), END + 1, "unknown key 'networking'"),
    "missing section": (drop("link:\n", "power:"), None, "missing key 'link'"),
    "missing source": (swap("    source: Cerebras WSE-3 launch, 2024-03-13\n", ""),
                       line_of("capacity:"), "missing key 'source' in 'memory.capacity'"),
    "empty source": (swap("source: Cerebras WSE-3 launch, 2024-03-13", "source: ''"),
                     CAPACITY + 1, "expected non-empty text"),
    "figure without a source": (swap("  value: 23 kW\n", ""), line_of("power:"),
                                "missing key 'value' in 'power'"),
    "bare figure": (drop("  value: 23 kW", "price:"), line_of("power:"),
                    "found nothing, expected a value"),
    "missing for spatial": (drop("  cycles_per_weight:", "  fixed_time_per_layer:"),
                            line_of("constants:"), "missing key 'cycles_per_weight'"),
    "missing fabric": (drop("fabric:\n", "link:"), line_of("schema_version"),
                       "execution spatial needs it"),
    "temporal with cores": (swap("execution: spatial", "execution: temporal"),
                            line_of("cores:"), "no meaning for temporal execution"),
    "unknown execution": (swap("execution: spatial", "execution: spacial"),
                          line_of("execution:"), "did you mean 'spatial'"),
    "unknown format": (swap("    int8:", "    int9:"), line_of("int8:"), "did you mean 'int8'"),
    "no peak": (drop("    fp16:", "  cores:"), line_of("peak:"), "found nothing, expected a value"),
    "version from the future": (swap("schema_version: 1", "schema_version: 2"),
                                line_of("schema_version"), "found 2, expected 1"),
    "bad name": (swap("name: wse-3", "name: WSE 3"), line_of("name:"),
                 "found 'WSE 3', expected lower-case letters, digits, '.' and '-', the first a "
                 "letter or digit, at most 60 characters"),
    "a path as a name": (swap("name: wse-3", "name: 'a b/../c'"), line_of("name:"),
                         "found 'a b/../c', expected lower-case letters, digits, '.' and '-'"),
    "a very long name": (swap("name: wse-3", f"name: {'a' * 5000}"), line_of("name:"),
                         "aaa...', which is 5000 characters, expected at most 60"),
    "empty peak": (lambda: drop("    fp16:", "  cores:")().replace(b"  peak:", b"  peak: {}"),
                   line_of("peak:"),
                   "key 'compute.peak': found an empty mapping, expected at least 1 entry"),
    "negative spread": (swap("log_sd: 0.12", "log_sd: -0.12"), line_of("log_sd: 0.12"),
                        "greater than or equal to 0"),
    "spread as text": (swap("log_sd: 0.12", "log_sd: wide"), line_of("log_sd: 0.12"), "'wide'"),
    "spread of zero": (swap("value: 6.34 us", "value: 0 us"), line_of("value: 6.34 us") + 1,
                       "a value of zero has no logarithm"),
    "spread where none counts": (swap("  value: 23 kW", "  value: 23 kW\n  log_sd: 0.1"),
                                 line_of("value: 23 kW") + 1, "unknown key 'power.log_sd'"),
    "range upside down": (swap("low: 1", "low: 4"), line_of("low: 1"), "at most high = 3"),
    "duplicate key": (add("power: {value: 1 W, source: x}\n"), END + 1,
                      f"duplicate key 'power' (first on line {line_of('power:')})"),
    "duplicate key inside": (swap("    value: 44 GB", "    value: 44 GB\n    value: 45 GB"),
                             CAPACITY + 1, "duplicate key 'value'"),
    "tab": (swap("  capacity:", "\tcapacity:"), line_of("capacity:"), "a tab"),
    "byte-order mark": (lambda: WSE_3.encode("utf-8-sig"), 1, "byte-order mark"),
    "CRLF": (lambda: WSE_3.replace("\n", "\r\n").encode(), 1, "CRLF"),
    "UTF-16": (lambda: WSE_3.encode("utf-16"), 1, "UTF-16"),
    "UTF-16 without mark": (lambda: WSE_3.encode("utf-16-be"), 1, "UTF-16"),
    "UTF-32": (lambda: WSE_3.encode("utf-32"), 1, "UTF-32"),
    "Latin-1": (lambda: WSE_3.replace("Cerebras", "C\u00e9r\u00e9bras", 1).encode("latin-1"),
                line_of("title:"), "not UTF-8"),
    "binary": (lambda: bytes(range(256)) * 40, 1, "NUL"),
    "10 MB of nesting": (lambda: b"[" * 10_000_000, None, "10000000 bytes"),
    "nesting within the size": (lambda: b"[" * 999_999, 1, "nest"),
    "nested mappings": (lambda: b"{a: " * 200_000, 1, "nest"),
    "alias bomb": (lambda: BOMB.encode(), 1, "anchor '&a'"),
    "Python object": (swap("44 GB", "!!python/object/apply:os.getcwd []"), CAPACITY,
                      "'!!python/object/apply:os.getcwd'"),
    "merge key": (swap("    value: 44 GB", "    <<: {value: 44 GB}"), CAPACITY, "merge key"),
    "two documents": (add("---\nname: other\n"), END + 1, "second document"),
    "empty": (lambda: b"", None, "is empty"),
    "only comments": (lambda: b"# nothing\n", None, "is empty"),
    "a list": (lambda: b"- 1\n- 2\n", 1, "found a list, expected a mapping"),
    "a text": (lambda: b"hello\n", 1, "found 'hello', expected a mapping"),
    "JSON of another kind": (lambda: b'{"architectures": ["Llama"]}', 1, "missing key"),
    "unclosed quote": (swap("title: Cer", "title: 'Cer"), None, "not YAML"),
    "escape sequences": (swap("title: Cerebras WSE-3, one wafer (CS-3)", 'title: "\\e[2J"'),
                         line_of("title:"), "control character"),
    "many unknown keys": (lambda: b"".join(b"k%d: 1\n" % i for i in range(20_000)), 1, "more)"),
    "a very long key": (lambda: b"x" * 900_000 + b": 1\n", 1, ""),
    "covariance of an unknown constant": (matrix("cycles_per_wait", "[[1]]"), END + 2,
                                          "did you mean 'cycles_per_weight'"),
    "covariance of a certain figure": (matrix("memory.capacity", "[[1]]"), END + 2,
                                       "unknown constant 'memory.capacity'"),
    "covariance names one twice": (matrix("link.latency, link.latency", "[[1, 0], [0, 1]]"),
                                   END + 2, "named twice"),
    "covariance of another size": (matrix("link.latency", "[[1, 0], [0, 1]]"), END + 3,
                                   "expected 1 rows of 1 numbers"),
    "covariance not symmetric": (matrix("link.latency, compute.clock", "[[1, 0.5], [0, 1]]"),
                                 END + 3, "symmetric"),
    "covariance not positive": (matrix("link.latency, compute.clock", "[[1, 2], [2, 1]]"),
                                END + 3, "semidefinite"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_clear_line(case: str, tmp_path: Path) -> None:
    make, line, said = CASES[case]
    path = tmp_path / "profile.yaml"
    path.write_bytes(make())
    with pytest.raises(FileError) as caught:
        Hardware.load(path)
    message, *others = map(str, (caught.value, *caught.value.further))
    assert any(said in one for one in (message, *others))
    assert message.startswith(f"{path}:" if line is None else f"{path}:{line}: "), message
    assert len(others) < 20
    for one in (message, *others):
        assert len(one.splitlines()) == 1 and len(one) < len(str(path)) + 400


def test_the_unspoilt_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    path.write_text(WSE_3)
    assert Hardware.load(path).cores == 893_064


def test_a_directory(tmp_path: Path) -> None:
    folder = tmp_path / "profile.yaml"
    folder.mkdir()
    with pytest.raises(FileError, match="is a directory"):
        Hardware.load(folder)
