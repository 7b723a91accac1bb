"""Stores to run the same tests against: a folder, and the stack's real S3 and GCS endpoints."""

from __future__ import annotations

import copy
import functools
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.opened_store import open_store
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets_tests.backup.bronze_tables import Bronze
from cdc_assets_tests.support.servers.endpoints import Endpoint

_IN_FOLDERS = ("local",)
_SERVED = ("s3", "gcs")
"""Kinds of stores: those that need a folder alone, and those of an endpoint."""


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a backup remembers on this machine, apart from that of other tests."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def endpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """Named by indirect parametrization; its credentials are in the environment, where the SDKs look."""
    found: Endpoint = request.getfixturevalue(f"{request.param}_endpoint")
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture(scope="session")
def shared_stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ObjectStore]:
    """The store of a kind, opened once: making a client takes longer than most tests."""

    @functools.cache
    def shared_store(kind: str) -> ObjectStore:
        if kind in _SERVED:
            return _opened(request.getfixturevalue(f"{kind}_endpoint"))
        opened = open_store(BackupStore.model_validate({"kind": kind, "bucket": str(tmp_path_factory.mktemp(kind) / "bucket")}))
        opened.create_bucket()
        return opened

    return shared_store


@pytest.fixture(params=[*_IN_FOLDERS, *(pytest.param(kind, marks=pytest.mark.service) for kind in _SERVED)])
def any_store(
    request: pytest.FixtureRequest, shared_stores: Callable[[str], ObjectStore], monkeypatch: pytest.MonkeyPatch
) -> ObjectStore:
    """A store with an empty prefix of its own."""
    if request.param in _SERVED:
        for name, value in request.getfixturevalue(f"{request.param}_endpoint").environment.items():
            monkeypatch.setenv(name, value)
    shared = shared_stores(request.param)
    own = copy.copy(shared)
    own.config = shared.config.model_copy(update={"prefix": f"t/{uuid.uuid4().hex}"})
    return own


def _opened(endpoint: Endpoint) -> ObjectStore:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in endpoint.environment.items():
            patch.setenv(name, value)
        opened = open_store(endpoint.config)
        opened.create_bucket()
        return opened


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """A folder."""
    local = open_store(BackupStore(kind="local", bucket=str(tmp_path / "bucket"), prefix="lake"))
    local.create_bucket()
    return local


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where `store` keeps its objects."""
    return tmp_path / "bucket" / "lake"


@pytest.fixture
def bronze(tmp_path: Path) -> Bronze:
    return Bronze(str(tmp_path / "bronze"))
