"""The stack's own S3 endpoint, once for all; a lake of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_assets_tests.backup.endpoints import running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "s3_variables" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.service)


@pytest.fixture(scope="session")
def s3_variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with running("s3", tmp_path_factory.mktemp("s3")) as endpoint:
        yield endpoint.environment


@pytest.fixture
def s3_lake(s3_variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The root of an empty lake, whose address and keys this process has."""
    for name, value in s3_variables.items():
        monkeypatch.setenv(name, value)
    return f"s3a://cdc-backup/{uuid.uuid4().hex}"


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.service)])
def lake_root(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("tmp_path" if request.param == "disk" else "s3_lake"))
