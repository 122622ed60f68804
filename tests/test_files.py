import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from archinfer import files
from archinfer.errors import FileError
from archinfer.files import load
from archinfer.strict import validate


def write(folder: Path, text: str | bytes, name: str = "file.yaml") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_plain_data_with_lines(tmp_path: Path) -> None:
    text = "# comment\na: 1\nb:\n  c: [x, 2.5,\n      true]\n  1: ~\n'd': |\n  two\n  lines\n"
    document = load(write(tmp_path, text))
    assert document.data == {
        "a": 1,
        "b": {"c": ["x", 2.5, True], 1: None},
        "d": "two\nlines\n",
    }
    assert document.line_of(("a",)) == 2
    assert document.line_of(("b", "c", 1)) == 4
    assert document.line_of(("b", "c", 2)) == 5
    assert document.line_of(("b", 1)) == 6
    assert document.line_of(("d",)) == 7
    assert document.line_of(("b", "nothing", "here")) == 3
    assert document.line_of(("nothing",)) == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("NO", "NO"),
        ("True", "True"),
        ("true", True),
        ("1:30", "1:30"),
        ("2026-08-18", "2026-08-18"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("012", "012"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-7", -7),
        ("null", None),
        ("''", ""),
        ("'5'", "5"),
        ("'.nan'", ".nan"),
        ("'<<'", "<<"),
        ("--- 5", 5),
    ],
)
def test_scalars(tmp_path: Path, text: str, value: object) -> None:
    found = load(write(tmp_path, text)).data
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (b"", None, "is empty"),
        (b"\n \n", None, "is empty"),
        (b"# only a comment\n", None, "is empty"),
        (b"a: 1\nb: \0\n", 2, "NUL"),
        (b"\x7fELF\x02\x01\x01\0\0", 1, "NUL"),
        (b"a: 1\nb: \xe9t\xe9\n", 2, "0xe9 is not UTF-8"),
        ("a: 1\n".encode("utf-16"), 1, "UTF-16"),
        ("a: 1\n".encode("utf-16-le"), 1, "UTF-16"),
        ("a: 1\n".encode("utf-8-sig"), 1, "byte-order mark"),
        (b"a: 1\nb: 2\r\n", 2, "CRLF"),
        (b"a: 1\rb: 2\r", 1, "CRLF"),
        (b"a:\n\tb: 1\n", 2, "a tab in the indentation"),
        (b"a: 1\n---\nb: 2\n", 2, "second document"),
        (b"a: 1\nb: 2\na: 3\n", 3, "duplicate key 'a' (first on line 1)"),
        (b"a: {b: 1, b: 2}\n", 1, "duplicate key 'b'"),
        (b"a: &x 1\n", 1, "anchor '&x'"),
        (b"a: 1\nb: *x\n", 2, "alias '*x'"),
        (b"a: !!python/object/apply:os.system ['true']\n", 1, "!!python/object/apply:os.system"),
        (b"a: !!str 5\n", 1, "'!!str'"),
        (b"a: !foo 5\n", 1, "tag '!foo'"),
        (b"!foo\na: 5\n", 1, "tag '!foo'"),
        (b"a: ! 5\n", 1, "tag '!'"),
        (b"a: 1\n<<: {b: 2}\n", 2, "merge key"),
        (b"a: .nan\n", 1, "finite"),
        (b"a: NaN\n", 1, "finite"),
        (b"a: -.inf\n", 1, "finite"),
        (b"a: 1e999\n", 1, "finite"),
        (b"a: " + b"9" * 5000, 1, "5000 characters"),
        (b"? [a, b]\n: 1\n", 1, "as a key"),
        (b"true: 1\n", 1, "key true"),
        (b"2.5: 1\n", 1, "key 2.5"),
        (b"~: 1\n", 1, "key nothing"),
        (b"a: [1, 2\n", 2, "not YAML"),
        (b"a: 'open\n", 2, "not YAML"),
        (b"a: b: c\n", 1, "not YAML"),
        (b'a: "\\e[31m"\n', 1, "control character"),
        (b"a: 1\nb: \x07\n", 2, "control character"),
        (b"[" * 50, 1, "nested deeper than 40"),
        (b"[" * 900_000, 1, "nest"),
        (b"{a: " * 50, 1, "nested deeper than 40"),
        (b"- " * 50, 1, "nested deeper than 40"),
        (b"a: [" + b"1," * 60_000 + b"]", 1, "more than 50000 values"),
        (b"[" * 10_000_000, None, "10000000 bytes; expected at most 1000000"),
    ],
)
def test_refusals(tmp_path: Path, text: bytes, line: int | None, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(FileError) as caught:
        load(path)
    assert said in str(caught.value)
    assert caught.value.line == line
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 200 + len(str(path))


def test_things_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        load(tmp_path / "missing.yaml")
    with pytest.raises(FileError, match="is a directory"):
        load(tmp_path)
    with pytest.raises(FileError, match="not a file name"):
        load("a\0b.yaml")
    with pytest.raises(FileError, match="cannot be read"):
        load("a" * 5000)
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    with pytest.raises(FileError, match="not a regular file"):
        load(pipe)


def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "a: 1\n")

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(FileError, match="cannot be read: Permission denied"):
        load(path)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    path = write(tmp_path_factory.getbasetemp(), raw, "any.yaml")
    try:
        load(path)
    except FileError as error:
        assert len(str(error).splitlines()) == 1


@given(st.text(alphabet="ab:-[]{}&*!#|>'\"%@?, \n1.<", max_size=60))
def test_any_punctuation_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = write(tmp_path_factory.getbasetemp(), text, "punctuation.yaml")
    try:
        load(path)
    except FileError as error:
        assert len(str(error).splitlines()) == 1


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    capacity: float
    label: str | None = None


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    inner: Inner | None = None
    table: dict[int, Inner] = Field(default_factory=dict)
    many: list[Inner] = Field(default_factory=list)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inner:\n  capacty: 1\n  capacity: 2\n", "2: unknown key 'inner.capacty'; did you mean"),
        ("inner:\n  label: x\n", "1: missing key 'capacity' in 'inner'"),
        ("\ninner:\n  capacity: text\n", "3: key 'inner.capacity': found 'text', expected a valid"),
        ("many:\n- capacity: 1\n- capacity: [1]\n", "3: key 'many.1.capacity': found a list"),
        (
            "many:\n- capacity: 1\n  xyz: 1\n",
            "3: unknown key 'many.0.xyz' (known: capacity, label)",
        ),
        (
            "table:\n  1: {capacitty: 1}\n",
            "2: unknown key 'table.1.capacitty'; did you mean 'capacity'?",
        ),
        ("table:\n  one: {capacity: 1}\n", "2: key 'table.one': found 'one', expected a valid int"),
        ("inner: 5\n", "1: key 'inner': found 5, expected a mapping"),
        ("inner:\n  capacity: 1\n  label: 5\n", "3: key 'inner.label': found 5, expected text"),
        ("- 1\n", "1: found a list, expected a mapping"),
        ("outer: 1\n", "1: unknown key 'outer'"),
        ("many: {a: 1}\n", "1: key 'many': found a mapping, expected a list"),
    ],
)
def test_validation_messages(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(FileError) as caught:
        validate(load(path), Outer)
    assert str(caught.value).startswith(f"{path}:{message}"), str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_validation_tells_all_faults_and_starts_at_the_first_line(tmp_path: Path) -> None:
    path = write(tmp_path, "many:\n- {capacity: a}\n- {capacity: b}\ninner: 1\n")
    with pytest.raises(FileError, match=r":2: key 'many\.0\.capacity'") as caught:
        validate(load(path), Outer)
    assert [fault.line for fault in caught.value.further] == [3, 4]


def test_validation_returns_the_model(tmp_path: Path) -> None:
    document = load(write(tmp_path, "inner: {capacity: 1.5}\n"))
    assert validate(document, Outer) == Outer(inner=Inner(capacity=1.5))
    assert files.show({}) == "a mapping"
