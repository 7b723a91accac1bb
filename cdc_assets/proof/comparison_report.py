"""A comparison as one file that a person can hand on: what was compared, where, with which digests, and what differed.

It is HTML without scripts and without anything from elsewhere. Its last line is the SHA-256 of all lines above it, so that who
holds it can see that nothing was changed: `sed '$d' proof.html | sha256sum`. Every value is escaped: a key may look like markup.
The facts are those of `-o json`, with the same names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from cdc_assets.proof.comparison_result import DIFFERENT, EQUAL, TableResult
from cdc_assets.registry.display_text import visible
from cdc_assets.registry.durable_file import replace_file
from spark.errors import quantity


@dataclass(frozen=True)
class ReportHead:
    """When a comparison was made, by whom, with which command and version."""

    at: datetime
    asked_by: str
    command: str
    version: str


FACTS = (
    "verdict",
    "reason",
    "decided_by",
    "method",
    "lsn",
    "snapshot",
    "silver_version",
    "source_rows",
    "silver_rows",
    "counted",
    "looked_up",
    "set_aside",
    "source_digest",
    "silver_digest",
    "buckets",
    "buckets_differing",
    "share",
    "suspects",
    "in_flight",
    "keys_differing",
    "healed",
    "causes",
    "not_compared",
    "seconds",
)
"""Of each table, in this order; what is not known of one is left out."""
_OF_HISTORY = (
    "verdict",
    "reason",
    "decided_by",
    "version",
    "silver_version",
    "versions",
    "current",
    "share",
    "keys_differing",
    "healed",
)
_STYLE = (
    "body{font:15px/1.5 sans-serif;margin:2em auto;max-width:70em;padding:0 1em}table{border-collapse:collapse;margin:.5em 0}"
    "td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left;vertical-align:top;overflow-wrap:anywhere}"
    "code{font-family:monospace}.equal{color:#17692f}.different{color:#b3261e}.open{color:#8a5a00}"
)


def write_report(path: Path, head: ReportHead, results: Sequence[TableResult]) -> str:
    """Write the report, whole or not at all; its SHA-256.

    Raises:
        OSError: the file cannot be written there.
    """
    body = "\n".join(_lines(head, results)) + "\n"
    digest = hashlib.sha256(body.encode()).hexdigest()
    replace_file(path, f'{body}<p>SHA-256 of all lines above: <code id="digest">{digest}</code></p>\n'.encode())
    return digest


def _lines(head: ReportHead, results: Sequence[TableResult]) -> Iterator[str]:
    title = f"Proof of {quantity(len(results), 'table')}, {head.at:%Y-%m-%d %H:%M:%S} UTC"
    yield '<!doctype html><html lang="en"><meta charset="utf-8">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"
    facts = {"at": head.at.isoformat(), "asked by": head.asked_by, "command": head.command, "cdc_assets": head.version}
    yield _table(["", ""], facts.items())
    verdicts = [(result.table, result.verdict, result.sentence()) for result in results]
    yield f"<h2>Verdicts</h2>{_table(['table', 'verdict', 'in words'], verdicts)}"
    for result in results:
        yield from _of_table(result)


def _of_table(result: TableResult) -> Iterator[str]:
    data = result.to_json()
    colour = {EQUAL: "equal", DIFFERENT: "different"}.get(result.verdict, "open")
    yield f'<h2 class="{colour}">{_cell(result.table)}: {_cell(result.verdict)}</h2>'
    yield _table(["fact", "value"], _facts(data, FACTS))
    if result.differences:
        header = ["key", "what", "damaged", "copies", "columns", "source", "silver"]
        yield _table(header, [[d[name] for name in _OF_DIFFERENCE] for d in data["differences"]])
        yield _more(result.keys_differing - len(result.differences))
    if result.history is not None:
        history = data["history"]
        yield f"<h3>{_cell(result.table)}: its history</h3>{_table(['fact', 'value'], _facts(history, _OF_HISTORY))}"
        if result.history.differences:
            header = ["key", "what", "versions from", "columns", "damaged", "seen by"]
            yield _table(header, [list(d.values()) for d in history["differences"]])
            yield _more(result.history.keys_differing - len(result.history.differences))


_OF_DIFFERENCE = ("key", "kind", "where", "copies", "columns", "source", "silver")


def _more(keys: int) -> str:
    return f"<p>And {quantity(keys, 'key')} more.</p>" if keys > 0 else ""


def _facts(data: Mapping[str, Any], wanted: Sequence[str]) -> Iterator[tuple[str, Any]]:
    return ((name, data[name]) for name in wanted if data[name] not in (None, "", (), [], {}))


def _table(header: Sequence[str], rows: Any) -> str:
    head = "".join(f"<th>{_cell(name)}</th>" for name in header) if any(header) else ""
    lines = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{lines}</table>"


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return escape(visible(text))
