"""Documents as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from archinfer.report import document as doc


def to_markdown(document: doc.Document) -> str:
    """The document, an empty line between blocks and none at the end."""
    parts = [f"# {document.title}"] if document.titled & doc.MARKDOWN else []
    for block in doc.flat(document.blocks, doc.MARKDOWN):
        parts += _block(block)
    return "\n\n".join(parts)


def _block(block: doc.Block) -> Iterator[str]:
    match block:
        case doc.Paragraph():
            text = _words(block.words)
            yield f"**{text}**" if block.style == "strong" else text
        case doc.Lead():
            yield from (f"**{sentence}**" for sentence in block.sentences)
            if block.items:
                yield "\n".join(f"- **{label}:** {text}" for label, text in block.items)
        case doc.Items():
            if block.title:
                yield f"**{block.title}**"
            yield "\n".join(_item(_words(item)) for item in block.items)
        case doc.Table():
            if block.title:
                yield f"**{block.title}**"
            kept = [i for i, align in enumerate(block.align) if align != "b"]
            yield _table(
                [block.headings[i] for i in kept],
                [[_words(doc.cell(row[i]).words) for i in kept] for row in block.rows],
            )


def _item(text: str) -> str:
    inside = text.lstrip()
    return f"{text[: len(text) - len(inside)]}- {inside}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"

    return "\n".join([line(headings), line(["---"] * len(headings)), *map(line, rows)])


def _words(words: doc.Words) -> str:
    if isinstance(words, str):
        return words
    return "".join(
        f"**{w.text}**" if not isinstance(w, str) and w.style == "strong" else doc.plain((w,))
        for w in words
    )
