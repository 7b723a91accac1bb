"""What to do when a check is red, as Dagster shows it: the check's row of docs/reference/checks.md, or a link to that page.

A browser opens no file from a page of Dagster, so the words themselves travel with each result. `CDC_DOCS_URL` is where
a platform team serves the folder `docs`, rendered: then the result has a link instead.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from pathlib import Path

import dagster as dg

from cdc_assets import settings

PAGE = "reference/checks.md"
_FOLDER = Path(__file__).parents[2] / "docs"
_LINK = re.compile(r"\[[^]]*\]\(([\w./-]+\.md)[^)]*\)")


def runbook(check: str) -> dg.MetadataValue:
    """Of the check of that name."""
    base = settings.lookup("CDC_DOCS_URL")
    if base:
        return dg.MetadataValue.url(f"{base.rstrip('/')}/{PAGE}")
    said = _rows().get(check)
    # In a wheel there are no docs.
    return dg.MetadataValue.md(said) if said else dg.MetadataValue.text(f"docs/{PAGE}")


@lru_cache(maxsize=1)
def _rows() -> dict[str, str]:
    """Each row of the page's table as Markdown, by its check's name."""
    try:
        lines = (_FOLDER / PAGE).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    # A relative link would lead to a page of Dagster that there is not.
    plain = [_LINK.sub(_path, line) for line in lines if line.startswith("| ")]
    heads, *rows = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in plain]
    found: dict[str, str] = {}
    for row in rows:
        told = "\n".join(f"- **{head}**: {cell}" for head, cell in zip(heads[1:], row[1:], strict=False))
        found |= dict.fromkeys(re.findall(r"`(\w+)`", row[0]), f"{told}\n- **more**: docs/{PAGE}")
    return found


def _path(link: re.Match[str]) -> str:
    """Of the page that a relative link leads to, from the folder above `docs`."""
    return posixpath.normpath(posixpath.join("docs", posixpath.dirname(PAGE), link[1]))
