"""Where jars are fetched from: the repository of the lock, or the mirror that a company has set for it.

Order: MAVEN_MIRROR_URL, COURSIER_REPOSITORIES (its first http entry), `<mirror>` of central or * in ~/.m2/settings.xml.
The sha256 of the lock holds for every one of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from cdc_assets.stack.errors import StackError


def repository(default: str, environment: Mapping[str, str] = os.environ, settings: Path | None = None) -> str:
    """The base URL, without a slash at its end."""
    url = environment.get("MAVEN_MIRROR_URL") or _coursier(environment.get("COURSIER_REPOSITORIES", ""))
    if not url:
        url = _maven_settings(settings or Path.home() / ".m2" / "settings.xml")
    return (url or default).rstrip("/")


def _coursier(value: str) -> str | None:
    # Entries are separated by "|"; names such as "central" or "ivy2Local" stand for themselves.
    return next((entry for entry in re.split(r"[|\s]+", value) if entry.startswith(("http://", "https://"))), None)


def _maven_settings(file: Path) -> str | None:
    try:
        root = ElementTree.parse(file).getroot()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except ElementTree.ParseError as error:
        raise StackError("jars", f"{file} is not valid XML: {error}", "mend it, or set MAVEN_MIRROR_URL") from error
    for mirror in root.findall(".//{*}mirror"):
        fields = {child.tag.rpartition("}")[2]: (child.text or "").strip() for child in mirror}
        names = [name.strip() for name in fields.get("mirrorOf", "").split(",")]
        covers = {"central", "*", "external:*", "external:http:*"} & set(names)
        if covers and "!central" not in names and fields.get("url"):
            return fields["url"]
    return None
