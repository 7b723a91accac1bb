"""Resolves `sets.py` into `jars.lock.toml` with jgo's pure-Python Maven resolver (a dev dependency).

Run by hand after a change of versions: `python -m cdc_assets.stack.jars.lock`. Downloads every jar once, to hash it.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from cdc_assets.quantity import quantity
from cdc_assets.stack.jars.licences import Fetch, licence_of
from cdc_assets.stack.jars.lockfile import LOCK, Jar, JarLock, read_lock, write_lock
from cdc_assets.stack.jars.maven_mirror import repository
from cdc_assets.stack.jars.sets import SETS, JarSet

if TYPE_CHECKING:
    from jgo.maven import MavenContext
    from jgo.parse import Coordinate


def resolve(jar_set: JarSet, context: MavenContext, pom: Fetch) -> list[Jar]:
    """The files of one set, hashed, with the licence that each declares."""
    wanted = [context.create_dependency(_parse(coordinate)) for coordinate in jar_set.coordinates]
    inputs, transitive = context.resolver.resolve(wanted) if jar_set.transitive else (wanted, [])
    jars = {}
    for dependency in [*inputs, *transitive]:
        packed = f"{dependency.type}:{dependency.classifier}:" if dependency.classifier else ""
        gav = f"{dependency.groupId}:{dependency.artifactId}:{packed}{dependency.version}"
        named = f"{dependency.groupId}:{dependency.artifactId}:"
        scope_left_out = dependency.scope in ("provided", "system", "test") or dependency.optional
        is_jar = dependency.type == "jar" and not dependency.classifier
        if not (is_jar or dependency in inputs) or scope_left_out or any(named.startswith(p) for p in jar_set.without):
            continue
        content = Path(dependency.artifact.resolve()).read_bytes()
        jars[gav] = Jar(gav, hashlib.sha256(content).hexdigest(), len(content), licence_of(gav, pom))
    return list(jars.values())


def _parse(text: str) -> Coordinate:
    from jgo.parse import Coordinate

    group, artifact, *other, version = text.split(":")
    packaging, classifier = other or (None, None)
    # Raw: otherwise each coordinate's own dependencyManagement would rule the versions of all others.
    return Coordinate(group, artifact, version=version, packaging=packaging, classifier=classifier, raw=True)


def main() -> None:
    """Resolve every set and write the lock."""
    import httpx
    import truststore

    truststore.inject_into_ssl()
    from jgo.maven import MavenContext

    base = read_lock().repository if LOCK.exists() else sys.argv[1]
    context = MavenContext(remote_repos={"central": base}, timeout=60)
    client = httpx.Client(timeout=60, follow_redirects=True)

    def pom(path: PurePosixPath) -> str:
        return client.get(f"{repository(base).rstrip('/')}/{path}").raise_for_status().text

    sets = {}
    for name, jar_set in SETS.items():
        jars = resolve(jar_set, context, pom)
        sets[name] = tuple(jars)
        print(f"{name}: {quantity(len(jars), 'jar')}, {sum(j.size for j in jars) / 1e6:.1f} MB")
    write_lock(JarLock(base, sets))


if __name__ == "__main__":
    main()
