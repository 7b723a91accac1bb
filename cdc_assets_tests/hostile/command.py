"""`cdc reconcile` as a person calls it, on a chain whose mirror is a copier of records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from typer.testing import CliRunner, Result

from cdc_assets.capture.connectors.mirrormaker2 import mirror_config
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.live.small_chain import SmallChain


def cdc(chain: SmallChain, *arguments: str) -> Result:
    """Any command, on the chain's source."""
    from cdc_assets.cli.cdc_command import app

    with cli_environment(chain):
        return CliRunner().invoke(app, list(arguments))


def reconcile(chain: SmallChain) -> tuple[int, str, list[dict[str, Any]]]:
    """`cdc reconcile SOURCE -o json`: its exit code, what it told past its result, and the result of each table."""
    result = cdc(chain, "reconcile", chain.source.name, "-o", "json")
    raised = None if isinstance(result.exception, SystemExit) else result.exception
    return result.exit_code, f"{result.stderr}{raised or ''}", json.loads(result.stdout or "[]")


@contextmanager
def cli_environment(chain: SmallChain) -> Iterator[None]:
    """The registry as a file, and every address where the command looks for it."""
    folder = Path(chain.root, "sources")
    folder.mkdir(exist_ok=True)
    (folder / f"{chain.source.name}.yaml").write_text(_written(chain.source))
    with pytest.MonkeyPatch.context() as patch, _connect(chain) as url:
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
def _connect(chain: SmallChain) -> Iterator[str]:
    """The address where the mirror's connector answers as Kafka Connect lets it: it runs, as declared, and has copied so far."""
    assert chain.copier is not None
    offsets = chain.copier.offsets

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, room, name, what = (*self.path.partition("?")[0].split("/"), "", "")[:4]
            self._answer(self._told(unquote(name), what) if room == "connectors" else [])

        def do_PUT(self) -> None:
            assert self.path.endswith("/config/validate"), self.path
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer({"name": "", "error_count": 0, "configs": []})

        def _told(self, name: str, what: str) -> Any:
            if not name:
                return []
            if what == "offsets":
                return {"offsets": offsets(name)}
            if what == "config":
                return mirror_config(chain.source)
            assert what == "status", self.path
            running = {"state": "RUNNING", "worker_id": "copier"}
            return {"name": name, "connector": running, "tasks": [{"id": 0, **running}], "type": "source"}

        def _answer(self, told: Any) -> None:
            body = json.dumps(told).encode()
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
