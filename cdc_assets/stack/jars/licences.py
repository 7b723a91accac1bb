"""The licence that a Maven artifact declares: its POM's `<licenses>`, or those of the nearest parent that has any.

Rule of inheritance: https://maven.apache.org/pom.html#inheritance (licenses are inherited as a whole).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from xml.etree import ElementTree

NONE = "none declared"
Fetch = Callable[[PurePosixPath], str]
_GENERATIONS = 12


def licence_of(gav: str, fetch: Fetch) -> str:
    """The names of the declared licences, joined by " | ".

    Args:
        gav: `group:artifact:version`, with or without packaging and classifier before the version.
        fetch: the text of a file of the repository.
    """
    for _ in range(_GENERATIONS):
        pom = ElementTree.fromstring(re.sub(r"""\sxmlns=(["'])[^"']+\1""", "", fetch(_pom(gav)), count=1))
        names = [" ".join((node.text or "").split()) for node in pom.findall("licenses/license/name")]
        if names:
            return " | ".join(sorted(set(names)))
        parent = pom.find("parent")
        if parent is None:
            return NONE
        gav = ":".join((parent.findtext(part) or "").strip() for part in ("groupId", "artifactId", "version"))
    return NONE


def _pom(gav: str) -> PurePosixPath:
    group, artifact, *_, version = gav.split(":")
    return PurePosixPath(*group.split("."), artifact, version, f"{artifact}-{version}.pom")
