"""What people are shown of texts and values that come from a source.

What a terminal or a page would act on is written out: C0, DEL and C1 (titles, the clipboard, the cursor), and turns of the
direction of writing (https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters). Dagster's pages render Markdown.
The same words about many tables are one line. Values of sensitive columns are hashes: equal values look equal within one answer,
and nobody can try values against them.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_ACTIVE = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_DIRECTIONS}]")
_ACTIVE_IN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_DIRECTIONS}]")
# What rich and click write to a terminal themselves: colours, and the cursor of a progress line.
_OWN = re.compile(r"\x1b\[[0-9;]*[mABCDGK]|\x1b\[\?25[lh]|\r")
_MARKS = re.compile(r"([!-/:-@\[-`{-~])")
_ACTIVE_MARKS = re.compile(r"([\\\[\]<`~])")


def visible(text: object) -> str:
    """One line: `\\x1b` for ESC, `\\u202e` for a turn of direction; a line break and a tab are written out too."""
    return _ACTIVE.sub(_code, str(text))


def visible_lines(text: object) -> str:
    """The same of several lines, which stay lines, with their tabs."""
    return _ACTIVE_IN_LINES.sub(_code, str(text))


def on_terminal(text: str) -> str:
    """What a terminal may be sent: our own colours and cursor, and nothing else that it acts on."""
    parts, at = [], 0
    for own in _OWN.finditer(text):
        parts += [visible_lines(text[at : own.start()]), own[0]]
        at = own.end()
    return "".join([*parts, visible_lines(text[at:])])


def is_active(text: str) -> bool:
    """Whether a terminal would act on something in it."""
    return bool(_ACTIVE.search(text))


def in_markdown(text: object) -> str:
    """One line that Markdown shows as it is: each mark of ASCII behind a backslash, so neither image nor link nor HTML.

    https://spec.commonmark.org/0.31.2/#backslash-escapes
    """
    return _MARKS.sub(r"\\\1", visible(text))


def lines_in_markdown(lines: list[str]) -> str:
    """Several such lines, below each other."""
    return "  \n".join(in_markdown(line) for line in lines)


def prose_in_markdown(text: object) -> str:
    """Lines of ours that quote a source: no image, link, HTML or fence of its own, and still to be read as they are.

    A check's description is such prose. Dagster's page renders it as Markdown in one place and shows it raw in another, its log
    and GraphQL have it raw. A bare address becomes a link to what it says (https://github.github.com/gfm/#autolinks-extension-).
    """
    return _ACTIVE_MARKS.sub(r"\\\1", visible_lines(text))


def prose_of_markdown(text: str) -> str:
    """What `prose_in_markdown` was given, as we read it back from Dagster."""
    return re.sub(r"\\([\\\[\]<`~])", r"\1", text)


def _code(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


class Complaint(NamedTuple):
    """Of `place`, in words that may name its own `table`; `kind` keeps apart what must not be one line."""

    place: str
    table: str
    text: str
    kind: str = ""

    @property
    def text_of_any_table(self) -> str:
        """With a mark for the table's name: as a whole word, also within `public.orders` or `silver_orders`."""
        name = re.escape(self.table)
        return re.sub(rf"(?<![^\W_]){name}(?![^\W])", "\0", self.text) if name else self.text


def common_causes(complaints: Iterable[Complaint]) -> list[list[Complaint]]:
    """Complaints of one kind whose texts differ by the table's name alone, group by group in the order of the first ones."""
    causes: dict[tuple[str, str], list[Complaint]] = {}
    for complaint in complaints:
        causes.setdefault((complaint.kind, complaint.text_of_any_table), []).append(complaint)
    return list(causes.values())


def first_and_more(same: Sequence[Complaint]) -> str:
    """`public.orders and 3 more`: the place of the first complaint, and how many others there are."""
    return same[0].place + (f" and {len(same) - 1} more" if same[1:] else "")


class HiddenValues:
    """Hashes that are comparable within one answer only: the salt is thrown away with it."""

    def __init__(self) -> None:
        self.salt = secrets.token_bytes(16)

    def hide(self, value: object) -> str | None:
        """The hash of a value's text; of nothing, nothing."""
        if value is None:
            return None
        return "hash:" + hashlib.blake2b(str(value).encode(), key=self.salt, digest_size=8).hexdigest()

    def hide_column(self, values: Any) -> Any:
        """An Arrow array as one of hashes."""
        import pyarrow as pa

        return pa.array([self.hide(value) for value in values.to_pylist()], pa.string())
