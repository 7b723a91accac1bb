"""`cdc licences --vulnerabilities`: what PyPI says of each locked version, and an error where it cannot be asked."""

from __future__ import annotations

import datetime as dt
import json

import httpx
import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.stack import bill_of_materials as known
from cdc_assets.stack.bill_of_materials import LockedPart
from cdc_assets.stack.stack_errors import StackError

PARTS = [
    LockedPart("python", "old-one", "1.0", "MIT", "pkg:pypi/old-one@1.0", ()),
    LockedPart("python", "good", "2.0", "MIT", "pkg:pypi/good@2.0", ()),
    LockedPart("jar", "org.x:y", "3", "MIT", "pkg:maven/org.x/y@3", ()),
]
# As pypi.org answers of idna 3.6, cut short.
SAID = {
    "aliases": ["CVE-2024-3651"],
    "details": "…",
    "fixed_in": ["3.7"],
    "id": "PYSEC-2024-60",
    "link": "https://osv.dev/vulnerability/PYSEC-2024-60",
    "source": "osv",
    "summary": None,
    "withdrawn": None,
}


def answer(request: httpx.Request) -> httpx.Response:
    found = {
        "/pypi/old-one/1.0/json": [SAID, {**SAID, "id": "PYSEC-0", "withdrawn": "2024-01-01"}],
        "/pypi/good/2.0/json": [],
    }
    assert request.url.host == "pypi.org"
    return httpx.Response(200, json={"info": {}, "vulnerabilities": found[request.url.path]})


def test_what_the_index_knows() -> None:
    (found,) = known.find_vulnerabilities(PARTS, httpx.MockTransport(answer))
    assert (found.name, found.id, found.mended) == ("old-one", "CVE-2024-3651, PYSEC-2024-60", "3.7")


@pytest.mark.parametrize("response", [httpx.Response(404), httpx.Response(200, text="<html>"), httpx.Response(200, json={})])
def test_an_index_that_does_not_say_is_no_good_news(response: httpx.Response) -> None:
    with pytest.raises(StackError, match=r"/pypi/old-one/1.0/json tells of no vulnerabilities"):
        known.find_vulnerabilities(PARTS[:1], httpx.MockTransport(lambda _: response))


def test_the_command_says_when_it_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_assets.stack.bill_of_materials.parts_of_locks", lambda: PARTS)
    ask = known.find_vulnerabilities
    monkeypatch.setattr(known, "find_vulnerabilities", lambda parts: ask(parts, httpx.MockTransport(answer)))
    result = CliRunner().invoke(app, ["licences", "--vulnerabilities", "-o", "json"])
    assert (result.exit_code, [row["name"] for row in json.loads(result.stdout)]) == (1, ["old-one"])
    assert f"1 known vulnerability of 2 packages, by {known.INDEX} at {dt.date.today()}" in result.stderr
    assert "1 jar was not asked about" in result.stderr
