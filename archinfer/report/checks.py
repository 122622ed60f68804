"""Results of `archinfer check`: a document for people, JUnit XML, workflow annotations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from xml.etree import ElementTree

from archinfer.checks.results import Remark, Report, Result
from archinfer.errors import printable
from archinfer.report import document as doc

# What XML 1.0 cannot hold, escaped or not.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


FAR = 10.0
"""A miss beyond so many times the limit is told as a factor."""


def margin_text(margin: float | None) -> str:
    """A margin as a signed percentage, as a factor where it fails by more than that says; empty
    where there is none."""
    if margin is None:
        return ""
    if margin < -FAR:
        return f"{1.0 - margin:,.3g} times the limit"
    percent = 100.0 * margin
    return f"{percent:+,.0f} %" if abs(percent) >= 100.0 else f"{percent:+.3g} %"


def summary(report: Report) -> str:
    """One line: how many hold, fail, and how many files are wrong."""
    text = f"{report.passed} passed, {report.failed} failed"
    if report.errors:
        wrong = len(report.errors)
        text += f", {wrong} {'file' if wrong == 1 else 'files'} wrong"
    return text


def document(report: Report) -> doc.Document:
    """One line for each expectation, then the summary."""
    lines = [doc.Paragraph(_line(result), tight=True, whole=True) for result in report.results]
    return doc.Document("", [*lines, doc.Paragraph(summary(report), "strong", whole=True)])


def _line(result: Result) -> doc.Words:
    verdict = doc.Span("PASS", "good") if result.passed else doc.Span("FAIL", "bad")
    said = f"{result.file}:{result.line}  {_label(result)}: {_message(result)}"
    return verdict, f"  {printable(said)}"


def _label(result: Result) -> str:
    return f"{result.name} [{result.expectation}]"


def _message(result: Result) -> str:
    margin = margin_text(result.margin)
    return result.message + (f" (margin {margin})" if margin else "")


def junit(report: Report) -> str:
    """JUnit XML: a suite for each file, a case for each expectation, an error for a wrong file."""
    root = ElementTree.Element("testsuites", name="archinfer check")
    _count(root, len(report.results) + len(report.errors), report.failed, len(report.errors))
    for file, group in groupby(report.results, key=lambda r: r.file):
        results = list(group)
        suite = ElementTree.SubElement(root, "testsuite", name=_xml(file))
        _count(suite, len(results), sum(not r.passed for r in results), 0)
        for result in results:
            named = {"name": _xml(_label(result)), "classname": _xml(file), "file": _xml(file)}
            case = ElementTree.SubElement(
                suite, "testcase", named | {"line": str(result.line), "time": "0"}
            )
            text = _xml(_message(result))
            if result.passed:
                ElementTree.SubElement(case, "system-out").text = text
            else:
                failure = ElementTree.SubElement(
                    case, "failure", message=text, type=result.expectation
                )
                failure.text = f"{_xml(file)}:{result.line}: {text}"
    for error in report.errors:
        suite = ElementTree.SubElement(root, "testsuite", name=_xml(error.file))
        _count(suite, 1, 0, 1)
        named = {"name": "file", "classname": _xml(error.file), "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", named)
        wrong = ElementTree.SubElement(case, "error", message=_xml(error.message), type="FileError")
        wrong.text = _xml(_where(error) + error.message)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode")


def _count(element: ElementTree.Element, tests: int, failures: int, errors: int) -> None:
    element.set("tests", str(tests))
    element.set("failures", str(failures))
    element.set("errors", str(errors))
    if element.tag == "testsuite":
        element.set("skipped", "0")
        element.set("time", "0")


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _where(error: Remark) -> str:
    return f"{error.file}: " if error.line is None else f"{error.file}:{error.line}: "


def workflow_commands(report: Report) -> Iterator[str]:
    """Workflow commands that mark failures and wrong files on their lines, then the summary."""
    for result in report.results:
        if not result.passed:
            where = result.file, result.line
            yield _command("error", *where, _label(result), _message(result))
    for kind, remarks in (("error", report.errors), ("warning", report.warnings)):
        for remark in remarks:
            yield _command(kind, remark.file, remark.line, "archinfer check", remark.message)
    yield summary(report)


def _command(kind: str, file: str, line: int | None, title: str, message: str) -> str:
    properties = [f"file={_property(file)}"]
    if line is not None:
        properties.append(f"line={line}")
    properties.append(f"title={_property(title)}")
    return f"::{kind} {','.join(properties)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
