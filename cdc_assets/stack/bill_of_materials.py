"""What this software is made of by its two lock files, as a CycloneDX document, and what PyPI knows against it.

The same lock files give the same document, byte for byte, but for the licences of packages, which are told where installed:
https://cyclonedx.org/docs/1.6/json/. PyPI takes vulnerabilities of a version from https://osv.dev. Nobody is asked of jars, of
Java and of PostgreSQL's binaries: docs/reference/vulnerabilities.md is about those.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cdc_assets.stack.jars.locked_jars import Jar, read_lock
from cdc_assets.stack.stack_errors import StackError

if TYPE_CHECKING:
    import httpx

UV_LOCK = Path(__file__).parents[2] / "uv.lock"
_OURSELVES = "cdc-assets"
_FILE = re.compile(r'url = "([^"]+)", hash = "sha256:([0-9a-f]{64})"')


@dataclass(frozen=True)
class LockedPart:
    """One package or jar. `files` are `(address, sha256)`; a jar's address is its place in a Maven repository."""

    kind: str
    name: str
    version: str
    licence: str
    purl: str
    files: tuple[tuple[str, str], ...]

    def row(self) -> dict[str, Any]:
        """As `cdc licences` prints it."""
        return {name: value for name, value in asdict(self).items() if name != "files"}


def parts_of_locks(uv_lock: Path = UV_LOCK) -> list[LockedPart]:
    """Every package of every platform and group that uv.lock names, but ourselves, and every jar.
    Raises StackError: there is no uv.lock: this was installed from a wheel."""
    if not uv_lock.is_file():
        raise StackError("licences", f"{uv_lock} does not exist", "./cdc licences, in a clone of the repository")
    lock = read_lock()
    return [*_packages(uv_lock.read_text(encoding="utf-8")), *map(_jar, lock.jars(sorted(lock.sets)))]


def _packages(text: str) -> Iterator[LockedPart]:
    for entry in text.split("\n[[package]]\n")[1:]:
        fields = dict(re.findall(r'^(name|version) = "([^"]+)"', entry, re.MULTILINE))
        if fields["name"] != _OURSELVES:
            purl = f"pkg:pypi/{fields['name']}@{quote(fields['version'])}"
            files = tuple(sorted(set(_FILE.findall(entry))))
            yield LockedPart(
                "python", fields["name"], fields["version"], _licence(fields["name"], fields["version"]), purl, files
            )


def _licence(name: str, version: str) -> str:
    try:
        package = metadata(name)
    except PackageNotFoundError:
        return ""
    if package["Version"] != version:
        return ""
    classifiers = [c.split(" :: ")[-1] for c in package.get_all("Classifier") or () if c.startswith("License ::")]
    whole = package.json.get("license_expression") or " | ".join(classifiers) or package.json.get("license") or ""
    # Some put the whole text there.
    return str(whole).strip().partition("\n")[0]


def _jar(jar: Jar) -> LockedPart:
    group, artifact, *other, version = jar.gav.split(":")
    more = f"?classifier={quote(other[1])}&type={quote(other[0])}" if other else "?type=jar"
    purl = f"pkg:maven/{quote(group)}/{quote(artifact)}@{quote(version)}{more}"
    return LockedPart("jar", f"{group}:{artifact}", version, jar.licence, purl, ((str(jar.path), jar.sha256),))


def cyclonedx(parts: Sequence[LockedPart], version: str) -> dict[str, Any]:
    """The document of this version of ours; its serial number is that of its components."""
    purl = f"pkg:pypi/{_OURSELVES}@{version}"
    components = [_component(part) for part in parts]
    licence = [{"license": {"id": "Apache-2.0"}}]
    ours = {"type": "application", "bom-ref": purl, "name": _OURSELVES, "version": version, "purl": purl, "licenses": licence}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, repr((version, components)))}",
        "version": 1,
        "metadata": {"component": ours},
        "components": components,
    }


def _component(part: LockedPart) -> dict[str, Any]:
    group, _, name = part.name.rpartition(":")
    hashes = [[{"alg": "SHA-256", "content": digest}] for _, digest in part.files]
    return {
        "type": "library",
        "bom-ref": part.purl,
        **({"group": group} if group else {}),
        "name": name,
        "version": part.version,
        "purl": part.purl,
        **({"licenses": [{"license": {"name": part.licence}}]} if part.licence else {}),
        # A package has a file for each platform: none of their hashes is the component's.
        **({"hashes": hashes[0]} if part.kind == "jar" else {}),
        **({"externalReferences": _distributions(part, hashes)} if part.kind == "python" and hashes else {}),
    }


def _distributions(part: LockedPart, hashes: list[list[dict[str, str]]]) -> list[dict[str, Any]]:
    return [
        {"type": "distribution", "url": address, "hashes": file_hashes}
        for (address, _), file_hashes in zip(part.files, hashes, strict=True)
    ]


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

    PyPI has those of each version: https://docs.pypi.org/api/json/#known-vulnerabilities

    Raises StackError: the index cannot be asked of one of them.
    """
    import httpx

    packages = [part for part in parts if part.kind == "python"]
    with httpx.Client(base_url=INDEX, timeout=20.0, transport=transport) as client, ThreadPoolExecutor(_AT_ONCE) as pool:
        by_package = pool.map(lambda part: _of(client, part), packages)
        return [vulnerability for several in by_package for vulnerability in several]


def _of(client: httpx.Client, part: LockedPart) -> list[Vulnerability]:
    import httpx

    path = f"/pypi/{quote(part.name)}/{quote(part.version)}/json"
    try:
        advisories = client.get(path).raise_for_status().json()["vulnerabilities"]
        return [
            Vulnerability(part.name, part.version, _names(advisory), ", ".join(advisory["fixed_in"]), advisory["link"] or "")
            for advisory in advisories
            if not advisory.get("withdrawn")
        ]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        reason = f"{INDEX}{path} tells of no vulnerabilities: {type(error).__name__}: {error}"
        raise StackError("licences", reason, "ask again where pypi.org is reached; --sbom is for a scanner of yours") from error


def _names(said: dict[str, Any]) -> str:
    """CVE first, where there is one."""
    names = {said["id"], *(said.get("aliases") or ())}
    return ", ".join(sorted(names, key=lambda name: (not name.startswith("CVE-"), name)))
