"""A lake of its own for each test, in the endpoints of S3 and GCS that all share."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from cdc_assets_tests.support.servers.endpoints import SCHEMES, Endpoint

_FIXTURES = frozenset({"s3_endpoint", "gcs_endpoint"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and _FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.service)


@pytest.fixture
def s3_lake(s3_endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> str:
    """The root of an empty lake, whose address and keys this process has."""
    return _root(s3_endpoint, monkeypatch)


@pytest.fixture
def gcs_lake(gcs_endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> str:
    return _root(gcs_endpoint, monkeypatch)


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.service) for kind in SCHEMES])
def object_lake(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_lake"))


@pytest.fixture(params=["disk", *(pytest.param(kind, marks=pytest.mark.service) for kind in SCHEMES)])
def lake_root(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("tmp_path" if request.param == "disk" else f"{request.param}_lake"))


def _root(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in endpoint.environment.items():
        monkeypatch.setenv(name, value)
    return f"{SCHEMES[endpoint.kind]}://cdc-backup/{uuid.uuid4().hex}"
