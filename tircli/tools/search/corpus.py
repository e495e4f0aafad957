"""Passages, and the files that hold them: JSONL, DPR's TSV, parquet.

A JSONL line is `{"id", "contents"}` or `{"id", "title", "text"}`. `contents` may open with the
title in quotes on a line of its own, as the published Wikipedia corpora write it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tircli import jsonl
from tircli.records import InputError, MissingExtra, RecordError

_TITLED = re.compile(r'"([^\n]*)"\n')


class Passage(NamedTuple):
    """One passage of a corpus."""

    id: str
    title: str | None
    text: str

    @property
    def contents(self) -> str:
        """Title and text as the published corpora write them."""
        return self.text if self.title is None else f'"{self.title}"\n{self.text}'


def titled(id: str, contents: str) -> Passage:
    """The passage in `contents`, its title apart."""
    found = _TITLED.match(contents)
    return Passage(id, found[1], contents[found.end() :]) if found else Passage(id, None, contents)


def read(path: str) -> Iterator[Passage]:
    """The passages of a file, checked. Raises InputError (RecordError for a bad line)."""
    if path.endswith(".tsv"):
        rows = _tsv(path)
    elif path.endswith(".parquet"):
        rows = _parquet(path)
    else:
        rows = ((place, jsonl.decode(line, place)) for place, line in jsonl.lines(path))
    for place, row in rows:
        yield _passage(row, place)


def _passage(row: Any, place: str) -> Passage:
    if not isinstance(row, dict):
        raise RecordError(f'{place}: no object; write {{"id": ..., "contents": ...}}')
    identity = row.get("id")
    if isinstance(identity, int) and not isinstance(identity, bool):
        identity = str(identity)
    if not isinstance(identity, str) or not identity:
        raise RecordError(f'{place}: "id" is {identity!r}; write a string or a whole number')
    contents, text, title = row.get("contents"), row.get("text"), row.get("title")
    if isinstance(contents, str):
        return titled(identity, contents)
    if not isinstance(text, str):
        raise RecordError(f'{place}: no passage; write "contents", or "title" and "text"')
    if title is not None and not isinstance(title, str):
        raise RecordError(f'{place}: "title" is {title!r}; write a string or leave it out')
    title = " ".join(title.split()) if title else None
    return Passage(identity, title or None, text)


def _tsv(path: str) -> Iterator[tuple[str, Any]]:
    """Rows of `id`, `text`, `title` under a line that names them."""
    csv.field_size_limit(1 << 30)

    def decoded() -> Iterator[str]:
        for place, line in jsonl.lines(path):
            try:
                yield line.decode("utf-8") + "\n"
            except UnicodeDecodeError as error:
                message = f"{place}: not UTF-8 at byte {error.start}; save as UTF-8"
                raise RecordError(message) from None

    rows = csv.DictReader(decoded(), delimiter="\t")
    if not {"id", "text"} <= set(rows.fieldnames or ()):
        raise InputError(f"{path}: no columns id and text; name them in the first line")
    for row in rows:
        yield f"{path}:{rows.line_num}", row


def _parquet(path: str) -> Iterator[tuple[str, Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError:
        raise MissingExtra(f"{path}: needs pyarrow; pip install pyarrow") from None
    try:
        with parquet.ParquetFile(path) as table:
            number = 0
            for batch in table.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}: row {number}", row
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path") from None
    except ArrowException as error:
        raise InputError(f"{path}: no parquet file ({error}); check it") from None
