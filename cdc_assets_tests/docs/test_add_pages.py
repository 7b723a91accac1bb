"""The pages "add a …", followed as they are written, on a copy: each adds its files and one row, and nothing else.

A block with a title is a new file of that name, or goes into the file of that name. What `./cdc` prints is on the page.
Where somebody has followed a page in this very clone, its test is skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"
BLOCK = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
# Where the rows of a table end.
END_OF_ROWS = {
    "cdc_assets/kinds/table.py": r"(?=^ROWS: )",
    "cdc_assets/kinds/stores.py": r"(?<=\n)(?=\)\nSTORES)",
    "spark/kinds/envelopes.py": r"(?<=\n)(?=\)\nENVELOPES)",
    "cdc_assets/defs/checks/builders.py": r"(?<=\n)(?=\)\n\Z)",
    "docs/reference/checks.md": r"(?=^## A table that is stale$)",
}
# In the module the sources of which are asked for, as at a shell.
ASSETS = """
from cdc_assets.definitions import defs
graph = defs.get_repository_def().asset_graph
for key in sorted(graph.get_all_asset_keys()):
    print(key.to_user_string(), *sorted(graph.get(key).kinds), *(check.name for check in sorted(graph.get(key).check_keys)))
    print(graph.get(key).metadata.get("cdc/experimental", "-"))
"""


class Copy:
    """The product, copied, with a page's files and rows in it."""

    def __init__(self, folder: Path, page: str) -> None:
        self.root, self.text = folder, (HOW_TO / page).read_text(encoding="utf-8")
        for part in ("cdc_assets", "spark"):
            # With what Python has compiled of it, which the copies of the files keep valid: that takes longer than the rest.
            shutil.copytree(ROOT / part, folder / part)
        shutil.copytree(ROOT / "docs" / "reference", folder / "docs" / "reference")
        self.tables = 0
        for name, text in BLOCK.findall(self.text):
            file = folder / name
            if name in END_OF_ROWS:
                self.tables += 1
                self._insert(file, name, text)
                continue
            if file.exists():
                _skip_followed(page, name, file.read_text(encoding="utf-8"), text)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def _insert(self, file: Path, name: str, text: str) -> None:
        row = re.match(r"([A-Z]+) = ", text)
        whole = text.startswith("    ")
        shown = f"{text}\n" if row or name.endswith(".md") else text if whole else f"    {text.rstrip().rstrip(',')},\n"
        before = file.read_text(encoding="utf-8")
        after, count = re.subn(END_OF_ROWS[name], lambda _: shown, before, count=1, flags=re.MULTILINE)
        assert count == 1, name
        if row:
            after = re.sub(r"^(ROWS: .*)\)$", rf"\1, {row[1]})", after, flags=re.MULTILINE)
        file.write_text(after, encoding="utf-8")

    def bring_tests(self) -> Path:
        """The folder of the tests, those of the page among them."""
        tests = self.root / "cdc_assets_tests"
        own = {file: file.read_text(encoding="utf-8") for file in tests.rglob("*.py")}
        shutil.copytree(ROOT / tests.name, tests, dirs_exist_ok=True)
        for file, text in own.items():
            file.write_text(text, encoding="utf-8")
        for name in ("pyproject.toml", "workspace.yaml"):
            shutil.copy(ROOT / name, self.root)
        return tests

    def test(self, *files: str) -> int:
        """How many tests passed: all of the files."""
        done = self.python("-m", "pytest", "-q", "-p", "no:cacheprovider", *files, CDC_SOURCES="")
        return int(re.findall(r"^(\d+) passed\b", done, re.MULTILINE)[0])

    def tests_named(self) -> list[str]:
        """The files of tests in the page's last command."""
        command = re.findall(r"\./cdc test ((?:.*\\\n)*.*)", self.text)[-1]
        return [word for word in command.split() if word.startswith("cdc_assets_tests/")]

    def run(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """What a command of ours prints, which ends with this code."""
        return self.python("-m", "cdc_assets.cli", *arguments, code=code, **environment)

    def python(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """The same of a Python without the variables of ours."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("CDC_", "DAGSTER_", "PYTHON"))}
        own = {"CDC_SOURCES": str(self.root / "sources"), "CDC_HOME": str(self.root / ".cdc"), **environment}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=clean | own,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def promise(self, number: int = 0) -> str:
        """What the page says is printed."""
        return re.findall(r"^```text\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)[number].replace("…", str(self.root))


def _skip_followed(page: str, name: str, there: str, text: str) -> None:
    """A file of the page is there: the page was followed here, or takes the name of another file, which fails."""
    if there.strip() == text.strip():
        pytest.skip(f"{name} is there: {page} was followed in this clone. Its test wants a clone without that")
    pytest.fail(f"{name} is there, and is not what {page} writes: give yours another name, or the page's another")


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


def test_a_database_is_one_folder_and_one_row(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "add-a-database.md")
    assert copy.tables == 1
    assert {path.parent.name for path in (tmp_path / "cdc_assets" / "kind_files").rglob("*.py")} == {"kind_files", "firefly"}
    assert copy.run("validate") == copy.promise(0)
    told = json.loads(copy.run("validate", "-o", "json"))["experimental"]
    assert told == {"lamps": "kind firefly is experimental: not run against a server"}
    lines = copy.python("-c", ASSETS).splitlines()
    assert [line.split()[0] for line in lines[::2]] == copy.promise(1).splitlines()
    assert lines[2:4] == [
        "connector/lamps/connector_lamps debezium firefly kafkaconnect connector_running preflight",
        told["lamps"],
    ]
    copy.run("render", "--target", "connect", "--out", "rendered")
    rendered = [json.loads(file.read_text()) for file in (tmp_path / "rendered").rglob("*lamps-capture*")]
    assert [each.get("config", each)["connector.class"] for each in rendered] == ["org.example.firefly.FireflyConnector"]
    with a_connect() as url:
        kafka = {"CDC_CORE_BOOTSTRAP": "127.0.0.1:1", "CDC_LAKE_BOOTSTRAP": "127.0.0.1:2"}
        secret = {"CDC_SECRET_LAMPS": "x"}
        shown = copy.run("diff", "lamps", code=1, CDC_CORE_CONNECT=url, CDC_LAKE_CONNECT=url, **kafka, **secret)
    assert "lamps-capture" in shown
    assert "org.example.firefly.FireflyConnector" in shown


def test_an_object_store_is_one_file_and_one_row(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "add-an-object-store.md")
    assert copy.tables == 1
    assert copy.run("validate") == copy.promise()
    assert "backup/lamps/backup_lamp files manifest_parity" in copy.python("-c", ASSETS)
    script = f"""
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.resources.object_store import open_store
store = open_store(BackupStore(kind="shelf", bucket={str(tmp_path / "bucket")!r}))
store.create_bucket()
twice = store.put_if_absent("a", b"1"), store.put_if_absent("a", b"2")
print(type(store).__name__, store.url.partition(":")[0], *twice, store.get("a"))
"""
    assert copy.python("-c", script).split() == ["ShelfStore", "shelf", "True", "False", "b'1'"]


@pytest.mark.all
def test_a_check_is_one_file_and_one_row(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "add-a-check.md")
    assert copy.tables == 2
    builders = tmp_path / "cdc_assets" / "defs" / "checks" / "builders.py"
    (statement,) = re.findall(r"^```python\n(from .*?)^```", copy.text, re.MULTILINE | re.DOTALL)
    text = builders.read_text()
    builders.write_text(text.replace("from cdc_assets.defs.checks.flow", f"{statement}from cdc_assets.defs.checks.flow", 1))
    sources = str(ROOT / "cdc_assets" / "sources")
    assert "described" in copy.python("-c", ASSETS, CDC_SOURCES=sources)
    expected = copy.bring_tests() / "defs" / "test_definitions.py"
    expected.write_text(change_expected(copy.text, expected.read_text(encoding="utf-8")), encoding="utf-8")
    named = copy.tests_named()
    assert {Path(file).name for file in named} == {
        "test_described.py",
        "test_checks_page.py",
        "test_definitions.py",
        "test_house.py",
    }
    assert copy.test(*named) > len(named)


def change_expected(page: str, text: str) -> str:
    """The lines and the number of test_definitions.py, as the page says to change them."""
    ((word, *assets),) = re.findall(r"Put `(\w+, )` first on the lines `checks:` of `(\w+)` and `(\w+)`", page)
    for asset in assets:
        text, count = re.subn(rf"(/{asset} <- .*\n  checks: )", rf"\g<1>{word}", text)
        assert count == 1, asset
    ((more, before),) = re.findall(r"Add (\d+) to the number in `(assert [^`]*) …`", page)
    text, count = re.subn(
        rf"({re.escape(before)} )(\d+)$", lambda found: f"{found[1]}{int(found[2]) + int(more)}", text, flags=re.M
    )
    assert count == 1, before
    return text


def test_an_envelope_is_one_file_and_one_row(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "add-an-envelope.md")
    assert copy.tables == 1
    assert copy.run("validate") == copy.promise()


@pytest.mark.all
@pytest.mark.service
def test_an_envelope_has_a_test(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "add-an-envelope.md")
    copy.bring_tests()
    assert copy.test("cdc_assets_tests/spark/envelopes/test_envelope_boxed.py") == 1


def test_a_page_that_was_followed_here_is_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match="was followed in this clone"):
        _skip_followed("add-a-check.md", "described.py", "NAME = 1\n", "NAME = 1\n")
    with pytest.raises(pytest.fail.Exception, match="give yours another name"):
        _skip_followed("add-a-check.md", "described.py", "NAME = 2\n", "NAME = 1\n")


def test_every_page_that_adds_says_where_to_try_it() -> None:
    pages = sorted(HOW_TO.glob("add-a*.md"))
    adding = [page for page in pages if any(name in END_OF_ROWS for name, _ in BLOCK.findall(page.read_text()))]
    assert len(adding) == 4
    top = {page.name: page.read_text().split("\n## ")[0] for page in adding}
    assert [name for name, text in top.items() if "Try the page on a scratch copy of your clone." not in text] == []
    assert [page.name for page in adding if "`CHANGELOG.md`" not in page.read_text()] == []
    assert [page.name for page in adding if "house/test_house.py" not in page.read_text()] == []
