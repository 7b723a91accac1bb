"""What to do when a check is red, as Dagster shows it: the check's section of docs/reference/checks.md, or a link to that page.

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
_LINK = re.compile(r"\[[^]]*\]\(([\w./-]*)(?:#[^)]*)?\)")
_SECTION = re.compile(r"^### (.*`)?.*\n\n((?:\* .*\n(?:  .*\n)*)+)", re.MULTILINE)


def runbook(check: str) -> dg.MetadataValue:
    """Of the check of that name."""
    base = settings.lookup("CDC_DOCS_URL")
    if base:
        return dg.MetadataValue.url(f"{base.rstrip('/')}/{PAGE}")
    said = _sections().get(check)
    # In a wheel there are no docs.
    return dg.MetadataValue.md(said) if said else dg.MetadataValue.text(f"docs/{PAGE}")


@lru_cache(maxsize=1)
def _sections() -> dict[str, str]:
    """Each check's section of the page, a line for each of its items, by the check's name."""
    try:
        text = (_FOLDER / PAGE).read_text(encoding="utf-8")
    except OSError:
        return {}
    found: dict[str, str] = {}
    for head, items in _SECTION.findall(text):
        # A relative link would lead to a page of Dagster that there is not.
        told = _LINK.sub(_path, items.replace("\n  ", " "))
        found |= dict.fromkeys(re.findall(r"`(\w+)`", head), f"{told}* **more**: docs/{PAGE}")
    return found


def _path(link: re.Match[str]) -> str:
    """Of the page that a relative link leads to, from the folder above `docs`; a link within the page names that."""
    return posixpath.normpath(posixpath.join("docs", posixpath.dirname(PAGE), link[1] or posixpath.basename(PAGE)))
