"""`cdc reconcile` as a person calls it, on a chain whose mirror is a copier of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from typer.testing import CliRunner

from cdc_assets.registry.models import Source
from cdc_assets_tests.support.live.small_chain import SmallChain


def reconcile(chain: SmallChain) -> tuple[int, str, list[dict[str, Any]]]:
    """`cdc reconcile SOURCE -o json`: its exit code, what it told past its result, and the result of each table."""
    from cdc_assets.cli import app

    with cli_environment(chain):
        result = CliRunner().invoke(app, ["reconcile", chain.source.name, "-o", "json"])
    raised = None if isinstance(result.exception, SystemExit) else result.exception
    return result.exit_code, f"{result.stderr}{raised or ''}", json.loads(result.stdout or "[]")


@contextmanager
def cli_environment(chain: SmallChain) -> Iterator[None]:
    """The registry as a file, and every address where the command looks for it."""
    folder = Path(chain.root, "sources")
    folder.mkdir(exist_ok=True)
    (folder / f"{chain.source.name}.yaml").write_text(_written(chain.source))
    assert chain.copier is not None
    with pytest.MonkeyPatch.context() as patch, _connect(chain.copier.offsets) as url:
        values = {
            "CDC_SOURCES": str(folder),
            "CDC_CORE_BOOTSTRAP": chain.live.bootstrap,
            "CDC_LAKE_BOOTSTRAP": chain.live.bootstrap,
            "CDC_CORE_CONNECT": chain.live.connect.url,
            "CDC_LAKE_CONNECT": url,
            "CDC_SPARK_REMOTE": chain.remote,
            "CDC_LAKE": str(chain.root),
        }
        for name, value in values.items():
            patch.setenv(name, value)
        yield


def _written(source: Source) -> str:
    return yaml.safe_dump(source.model_dump(mode="json", by_alias=True, exclude_unset=True), allow_unicode=True, sort_keys=False)


@contextmanager
def _connect(offsets: Callable[[str], list[dict[str, Any]]]) -> Iterator[str]:
    """The address where a connector's offsets are answered, as Kafka Connect does; nothing else is."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, connectors, name, what = self.path.split("/")
            assert (connectors, what) == ("connectors", "offsets"), self.path
            body = json.dumps({"offsets": offsets(unquote(name))}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Not into the test's output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
