"""`cdc licences`: both lock files, read by another reader (TOML), are in the document whole."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.stack.bill_of_materials import parts_of_locks
from cdc_assets.stack.jars.locked_jars import LOCK
from cdc_assets.stack.stack_errors import StackError

ROOT = Path(__file__).parents[3]
PURL = re.compile(r"pkg:(pypi/[a-z0-9][a-z0-9.-]*|maven/[\w.-]+/[\w.-]+)@([\w.+-]|%[0-9A-F]{2})+(\?[\w=&.-]+)?")


def sbom() -> dict[str, Any]:
    done = CliRunner().invoke(app, ["licences", "--sbom"], catch_exceptions=False)
    assert done.exit_code == 0
    return dict(json.loads(done.stdout))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="reads TOML by tomllib, which Python has from 3.11 on")
def test_it_holds_every_package_and_jar_of_the_locks_with_their_hashes() -> None:
    import tomllib

    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    jars = [jar for found in tomllib.loads(LOCK.read_text()).values() if isinstance(found, list) for jar in found]
    document = sbom()
    components = document["components"]
    assert (document["bomFormat"], document["specVersion"], document["version"]) == ("CycloneDX", "1.6", 1)
    refs = [component["bom-ref"] for component in components]
    assert len(set(refs)) == len(refs) == len(packages) - 1 + len({jar["gav"] for jar in jars})
    assert [ref for ref in refs if not PURL.fullmatch(ref)] == []
    by_name = {(c.get("group", ""), c["name"], c["version"]): c for c in components}
    for package in packages:
        if package["name"] != "cdc-assets":
            found = {
                h["content"]
                for r in by_name["", package["name"], package["version"]].get("externalReferences", ())
                for h in r["hashes"]
            }
            files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else [])]
            assert found == {file["hash"].removeprefix("sha256:") for file in files}
    hashes = {h["content"] for c in components for h in c.get("hashes", ())}
    assert hashes == {jar["sha256"] for jar in jars}


def test_the_same_locks_give_the_same_document_and_rows_for_people() -> None:
    first = sbom()
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", first["serialNumber"])
    assert sbom() == first
    rows = json.loads(CliRunner().invoke(app, ["licences", "-o", "json"]).stdout)
    assert {row["name"] for row in rows} >= {"dagster", "org.apache.kafka:kafka-clients"}
    assert [row["name"] for row in rows if row["kind"] == "jar" and not row["licence"]] == []


def test_without_a_clone_it_says_where(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="in a clone of the repository"):
        parts_of_locks(tmp_path / "uv.lock")
