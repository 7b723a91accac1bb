"""What PyPI knows of vulnerabilities of the packages that uv.lock names; it takes them from https://osv.dev.

https://docs.pypi.org/api/json/#known-vulnerabilities: of each version. Nobody is asked of jars, of Java and of PostgreSQL's
binaries: docs/reference/vulnerabilities.md is about those.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cdc_assets.stack.bill_of_materials import LockedPart
from cdc_assets.stack.errors import StackError

if TYPE_CHECKING:
    import httpx

INDEX = "https://pypi.org"
_AT_ONCE = 4


@dataclass(frozen=True)
class Vulnerability:
    """An advisory that is about this version; `mended` are the versions without it."""

    name: str
    version: str
    id: str
    mended: str
    link: str

    def row(self) -> dict[str, Any]:
        """As `cdc licences --vulnerabilities` prints it."""
        return asdict(self)


def find_vulnerabilities(parts: Sequence[LockedPart], transport: httpx.BaseTransport | None = None) -> list[Vulnerability]:
    """Of the packages among the parts, in their order; withdrawn advisories are left out.

    Raises:
        StackError: the index cannot be asked of one of them.
    """
    import httpx

    packages = [part for part in parts if part.kind == "python"]
    with httpx.Client(base_url=INDEX, timeout=20.0, transport=transport) as client, ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda part: _of(client, part), packages)
        return [each for several in found for each in several]


def _of(client: httpx.Client, part: LockedPart) -> list[Vulnerability]:
    import httpx

    place = f"/pypi/{quote(part.name)}/{quote(part.version)}/json"
    try:
        said = client.get(place).raise_for_status().json()["vulnerabilities"]
        return [
            Vulnerability(part.name, part.version, _names(each), ", ".join(each["fixed_in"]), each["link"] or "")
            for each in said
            if not each.get("withdrawn")
        ]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        reason = f"{INDEX}{place} tells of no vulnerabilities: {type(error).__name__}: {error}"
        raise StackError("licences", reason, "ask again where pypi.org is reached; --sbom is for a scanner of yours") from error


def _names(said: dict[str, Any]) -> str:
    """CVE first, where there is one."""
    names = {said["id"], *(said.get("aliases") or ())}
    return ", ".join(sorted(names, key=lambda name: (not name.startswith("CVE-"), name)))
