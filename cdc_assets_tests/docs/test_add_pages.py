"""The pages "add a …", followed as they are written, on a copy: each adds its files and one row, and nothing else.

A block with a title is a new file of that name, or goes into the file of that name. What `./cdc` prints is on the page.
Where somebody has followed a page in this very clone, its test is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from cdc_assets_tests.run.parts import CHECKS
from cdc_assets_tests.support.followed_page import END_OF_ROWS, ROOT, Copy, blocks_of, skip_followed, text_of
from cdc_assets_tests.support.followed_words import WholeCopy

pytestmark = [pytest.mark.slow, pytest.mark.all]
ADDING = ("add-a-check.md", "add-a-database.md", "add-an-envelope.md", "add-an-object-store.md")
# In the module the sources of which are asked for, as at a shell.
ASSETS = """
from cdc_assets.definitions import defs
graph = defs.get_repository_def().asset_graph
for key in sorted(graph.get_all_asset_keys()):
    print(key.to_user_string(), *sorted(graph.get(key).kinds), *(check.name for check in sorted(graph.get(key).check_keys)))
    print(graph.get(key).metadata.get("cdc/experimental", "-"))
"""


class _Connect(BaseHTTPRequestHandler):
    """A Kafka Connect that runs nothing and takes every config."""

    def do_GET(self) -> None:
        missing = {"error_code": 404, "message": "not found"}
        self._answer(404, missing) if "/connectors/" in self.path else self._answer(200, [])

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, {"error_count": 0, "configs": []})

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Silent."""


@contextmanager
def a_connect() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Connect)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


def test_a_database_is_three_files_and_a_row_in_each_table(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "add-a-database.md")
    # The six tables of kinds, and that of the page "Kinds of databases".
    assert copy.tables == 7
    assert len([*(tmp_path / "cdc_assets").rglob("firefly*.py")]) == 3
    assert copy.run("validate") == copy.promise(0)
    told = json.loads(copy.run("validate", "-o", "json"))["experimental"]
    assert told == {"lamps": "kind firefly is experimental: not run against a server"}
    lines = copy.python("-c", ASSETS).splitlines()
    assert [line.split()[0] for line in lines[::2]] == copy.promise(1).splitlines()
    assert lines[2:4] == [
        "connector/lamps/connector_lamps debezium firefly kafkaconnect connector_running preflight",
        told["lamps"],
    ]
    assert copy.run("render", "--target", "connect", "--out", "rendered") == copy.promise(2)
    rendered = [json.loads(file.read_text()) for file in (tmp_path / "rendered").rglob("*lamps-capture*")]
    assert [each.get("config", each)["connector.class"] for each in rendered] == ["org.example.firefly.FireflyConnector"]
    with a_connect() as url:
        kafka = {"CDC_CORE_BOOTSTRAP": "127.0.0.1:1", "CDC_LAKE_BOOTSTRAP": "127.0.0.1:2"}
        secret = {"CDC_SECRET_LAMPS": "x"}
        shown = copy.run("diff", "lamps", code=1, CDC_CORE_CONNECT=url, CDC_LAKE_CONNECT=url, **kafka, **secret)
    assert "lamps-capture" in shown
    assert "org.example.firefly.FireflyConnector" in shown


def test_an_object_store_is_one_file_and_two_rows(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "add-an-object-store.md")
    assert copy.tables == 2
    assert copy.run("validate") == copy.promise()
    assert "backup/lamps/backup_lamp files manifest_parity" in copy.python("-c", ASSETS)
    script = f"""
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.clients.opened_store import open_store
store = open_store(BackupStore(kind="shelf", bucket={str(tmp_path / "bucket")!r}))
store.create_bucket()
twice = store.put_if_absent("a", b"1"), store.put_if_absent("a", b"2")
print(type(store).__name__, store.url.partition(":")[0], *twice, store.get("a"))
"""
    assert copy.python("-c", script).split() == ["ShelfStore", "shelf", "True", "False", "b'1'"]


def test_a_check_is_one_file_two_rows_and_one_name(tmp_path: Path) -> None:
    copy = WholeCopy(tmp_path)
    copy.follow("add-a-check.md")
    assert copy.tables == 4
    assert "described" in copy.python("-c", ASSETS, CDC_SOURCES=str(ROOT / "cdc_assets" / "sources"))


def test_an_envelope_is_one_file_and_two_rows(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "add-an-envelope.md")
    assert copy.tables == 3
    assert copy.run("validate") == copy.promise()


@pytest.mark.all
@pytest.mark.service
@pytest.mark.parametrize("page", ADDING)
def test_the_last_command_of_a_page_passes(tmp_path: Path, page: str) -> None:
    copy = WholeCopy(tmp_path)
    copy.follow(page)
    assert copy.test_as_told() > 10


@pytest.mark.all
def test_what_is_run_before_a_commit_passes_behind_all_four(tmp_path: Path) -> None:
    copy = WholeCopy(tmp_path)
    for page in ADDING:
        copy.follow(page)
    for command in CHECKS:
        copy.python(*command[1][1:])
    assert copy.test("cdc_assets_tests", "--fast") > 2_000


def test_a_page_that_was_followed_here_is_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match="was followed in this clone"):
        skip_followed("add-a-check.md", "described.py", "NAME = 1\n", "NAME = 1\n")
    with pytest.raises(pytest.fail.Exception, match="give yours another name"):
        skip_followed("add-a-check.md", "described.py", "NAME = 2\n", "NAME = 1\n")


def test_every_page_that_adds_says_where_to_try_it() -> None:
    pages = [page.name for page in (ROOT / "docs" / "how-to").glob("add-a*.md")]
    assert sorted(page for page in pages if any(name in END_OF_ROWS for name, _ in blocks_of(page))) == sorted(ADDING)
    top = {page: text_of(page).split("\n## ")[0] for page in ADDING}
    assert [name for name, text in top.items() if "Try the page on a scratch copy of your clone." not in text] == []
    assert [page for page in ADDING if "`CHANGELOG.md`" not in text_of(page)] == []
    assert [page for page in ADDING if "house/test_house.py" not in text_of(page)] == []
