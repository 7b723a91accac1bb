"""The stack's own S3 and GCS endpoints, once for all; a lake of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_assets_tests.backup.endpoints import SCHEMES, running

_FIXTURES = frozenset({"s3_variables", "gcs_variables"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and _FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.service)


@pytest.fixture(scope="session")
def s3_variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with running("s3", tmp_path_factory.mktemp("s3")) as endpoint:
        yield endpoint.environment


@pytest.fixture(scope="session")
def gcs_variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with running("gcs", tmp_path_factory.mktemp("gcs")) as endpoint:
        yield endpoint.environment


@pytest.fixture
def s3_lake(s3_variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The root of an empty lake, whose address and keys this process has."""
    return _root("s3", s3_variables, monkeypatch)


@pytest.fixture
def gcs_lake(gcs_variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    return _root("gcs", gcs_variables, monkeypatch)


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.service) for kind in SCHEMES])
def object_lake(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_lake"))


@pytest.fixture(params=["disk", *(pytest.param(kind, marks=pytest.mark.service) for kind in SCHEMES)])
def lake_root(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("tmp_path" if request.param == "disk" else f"{request.param}_lake"))


def _root(kind: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return f"{SCHEMES[kind]}://cdc-backup/{uuid.uuid4().hex}"
