"""What this software is made of, by its two lock files, as a CycloneDX document (https://cyclonedx.org/docs/1.6/json/).

The same lock files give the same document, byte for byte, but for the licences of packages, which are told where installed.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cdc_assets.stack.errors import StackError
from cdc_assets.stack.jars.lockfile import Jar, read_lock

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

    Raises:
        StackError: there is no uv.lock: this was installed from a wheel.
    """
    if not uv_lock.is_file():
        raise StackError("licences", f"{uv_lock} does not exist", "./cdc licences, in a clone of the repository")
    lock = read_lock()
    return [*_packages(uv_lock.read_text(encoding="utf-8")), *map(_jar, lock.jars(sorted(lock.sets)))]


def _packages(text: str) -> Iterator[LockedPart]:
    for entry in text.split("\n[[package]]\n")[1:]:
        said = dict(re.findall(r'^(name|version) = "([^"]+)"', entry, re.MULTILINE))
        if said["name"] != _OURSELVES:
            purl = f"pkg:pypi/{said['name']}@{quote(said['version'])}"
            files = tuple(sorted(set(_FILE.findall(entry))))
            yield LockedPart("python", said["name"], said["version"], _licence(said["name"], said["version"]), purl, files)


def _licence(name: str, version: str) -> str:
    try:
        told = metadata(name)
    except PackageNotFoundError:
        return ""
    if told["Version"] != version:
        return ""
    classifiers = [c.split(" :: ")[-1] for c in told.get_all("Classifier") or () if c.startswith("License ::")]
    whole = told.json.get("license_expression") or " | ".join(classifiers) or told.json.get("license") or ""
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
        {"type": "distribution", "url": address, "hashes": each} for (address, _), each in zip(part.files, hashes, strict=True)
    ]
