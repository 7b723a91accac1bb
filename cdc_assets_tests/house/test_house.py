"""The house rules of docs/contributing.md that a program can count, in `cdc_assets/` and `spark/`."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

from cdc_assets.cli.verb_table import VERBS as COMMAND_LIST
from cdc_assets.registry.kind_models import MODELS
from cdc_assets.registry.kinds import DATABASES

ROOT = Path(__file__).parents[2]
LONGEST_FILE, LONGEST_FUNCTION, MOST_PARAMETERS, FEWEST_WORDS = 600, 40, 6, 4
FLAT_IN_SPARK = {"__init__", "__main__", "errors", "record_formats", "specs"}
OFTEN = {"errors", "job", *DATABASES}
"""Module names that may stand in three folders or more: a folder has its errors, a job its beginning, a kind its files."""
COMMANDS = {getattr(verb.load(name), "__name__", name) for name, verb in COMMAND_LIST.items()}
"""Functions that are verbs of `cdc`."""
CLASSES = {*(model.__name__ for model in MODELS.values()), "Source", "UnaskedSource", "TopicSource"}
"""Who asks whether something is one of these decides by its kind."""
NOUNS = {"accepted_values", "declared_connectors", "_failed_steps", "unsigned_bigint"}
"""Functions that answer; the participle belongs to their noun."""
IRREGULAR = frozenset(
    [
        "begun",
        "bound",
        "brought",
        "built",
        "done",
        "drawn",
        "found",
        "given",
        "gone",
        "held",
        "kept",
        "known",
        "left",
        "made",
        "met",
        "said",
        "seen",
        "sent",
        "shown",
        "spent",
        "taken",
        "told",
        "written",
    ]
)
TALK_TO_DAGSTER = {
    "defs": "makes Dagster's objects",
    "cli": "runs jobs of the code location, and reads runs that failed",
    "stack": "brings Dagster its storage, its code server and its webserver",
}
"""The only folders that import Dagster, and why."""
MAKERS = re.compile(
    r"\bdg\.(asset|multi_asset|asset_check|multi_asset_check|sensor|schedule|op|graph|job|resource|repository|define_asset_job"
    r"|AssetSpec|AssetsDefinition|Definitions|ConfigurableResource|Component|Scaffolder|\w+Definition)\b(?!s)"
)
BINARIES = {
    "docs/images/lineage.png",
    "cdc_assets_tests/support/histories/recording.json.gz",
    "cdc_assets_tests/support/models/mariadb_models.json.gz",
    "cdc_assets_tests/support/statements/mariadb_statements.json.gz",
    "cdc_assets_tests/support/statements/mysql_statements.json.gz",
}
"""A picture, what a Debezium has sent, and statements of test suites: no tool can make them again on every machine."""
VERBS = {"embed", "exceed", "feed", "need", "proceed", "seed", "succeed"}

Node = TypeVar("Node", bound=ast.AST)
KINDS_OF_NODES = (ast.FunctionDef, ast.ClassDef, ast.Call, ast.Compare)


@cache
def trees() -> dict[str, ast.Module]:
    """By the path within the project."""
    files = sorted(file for folder in ("cdc_assets", "spark") for file in (ROOT / folder).rglob("*.py"))
    return {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in files}


@cache
def all_nodes() -> dict[type[ast.AST], list[tuple[str, ast.AST]]]:
    found: dict[type[ast.AST], list[tuple[str, ast.AST]]] = {kind: [] for kind in KINDS_OF_NODES}
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if type(node) in found:
                found[type(node)].append((file, node))
    return found


def nodes(kind: type[Node]) -> Iterator[tuple[str, Node]]:
    yield from all_nodes()[kind]  # type: ignore[misc]


def test_files_and_functions_are_short() -> None:
    files = [file for file in trees() if len((ROOT / file).read_text(encoding="utf-8").splitlines()) > LONGEST_FILE]
    assert files == []
    lengths = {f"{file}: {node.name}": (node.end_lineno or 0) - node.lineno for file, node in nodes(ast.FunctionDef)}
    assert [name for name, length in lengths.items() if length > LONGEST_FUNCTION] == []


def test_all_that_is_shipped_can_be_read() -> None:
    """What must be compiled is, where it is needed (cdc_assets.stack.own_converters)."""
    files = [file for folder in ("cdc_assets", "spark") for file in (ROOT / folder).rglob("*") if file.is_file()]
    shipped = [file for file in files if "__pycache__" not in file.parts]
    assert len(shipped) > len(trees())
    assert [file for file in shipped if b"\0" in file.read_bytes()] == []


def test_functions_take_few_parameters() -> None:
    """A command apart: what it takes are its options."""
    many = []
    for file, node in nodes(ast.FunctionDef):
        given = [a for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if a.arg not in ("self", "cls")]
        if len(given) > MOST_PARAMETERS and not (file.startswith("cdc_assets/cli/") and node.name in COMMANDS):
            many.append(f"{file}: {node.name}")
    assert many == [], "give what belongs together a dataclass with a name"


def test_a_class_name_means_one_thing() -> None:
    places = defaultdict(list)
    for file, node in nodes(ast.ClassDef):
        places[node.name].append(file)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_a_module_name_says_what_is_in_it() -> None:
    stems = Counter(Path(file).stem for file in trees())
    assert {name for name, count in stems.items() if count > 2} - {"__init__", "__main__"} <= OFTEN
    assert {Path(file).stem for file in trees() if file.startswith("spark/") and file.count("/") == 1} == FLAT_IN_SPARK


def test_functions_are_no_participles() -> None:
    """What acts is an imperative, what answers is a noun; a property may be what its object is."""
    participles = set()
    for _, node in nodes(ast.FunctionDef):
        first = node.name.strip("_").partition("_")[0]
        of_object = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
        if not of_object and first not in VERBS and len(first) > 3 and (first.endswith("ed") or first in IRREGULAR):
            participles.add(node.name)
    assert participles - NOUNS == set()


def test_docstrings_say_something() -> None:
    told = [
        (file, said)
        for file, node in (*nodes(ast.FunctionDef), *nodes(ast.ClassDef))
        if (said := ast.get_docstring(node)) and len(said.split()) < FEWEST_WORDS
    ]
    assert told == []


def test_nobody_asks_what_kind_a_source_is() -> None:
    """What a kind has stands in its row (docs/adr/archive/0067)."""
    asked = []
    for file, call in nodes(ast.Call):
        if getattr(call.func, "id", "") == "isinstance":
            named = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(call.args[1])}
            asked += [f"{file}:{call.lineno}" for name in named & CLASSES if name]
    for file, comparison in nodes(ast.Compare):
        texts = {node.value for node in ast.walk(comparison) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        asked += [f"{file}:{comparison.lineno}" for name in texts & set(DATABASES) if name]
    assert asked == []


def test_no_text_of_an_error_decides() -> None:
    decided = []
    for file, comparison in nodes(ast.Compare):
        if any(isinstance(operator, ast.In | ast.NotIn) for operator in comparison.ops):
            calls = [node for node in ast.walk(comparison) if isinstance(node, ast.Call) and ast.unparse(node.func) == "str"]
            decided += [f"{file}:{call.lineno}" for call in calls if "err" in ast.unparse(call).lower()]
    assert decided == [], "give the error a type where it comes in"


def test_no_test_imports_another() -> None:
    """What tests share lies in `support/`, or in a module of their folder that is no test."""
    another = re.compile(r"^\s*(?:from|import) (?:cdc_assets_tests|benchmarks)\.(?:\w+\.)*test_", re.MULTILINE)
    files = [file for folder in ("cdc_assets_tests", "benchmarks") for file in sorted((ROOT / folder).rglob("*.py"))]
    assert [file.relative_to(ROOT).as_posix() for file in files if another.search(file.read_text(encoding="utf-8"))] == []


def test_dagster_is_talked_to_by_name_and_its_objects_are_made_in_one_place() -> None:
    talking, making = set(), []
    for file, tree in trees().items():
        imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        if any(name.partition(".")[0].startswith("dagster") for name in imported):
            talking.add(file.split("/")[1] if file.startswith("cdc_assets/") else file)
            if not file.startswith("cdc_assets/defs/"):
                making += [f"{file}: {found}" for found in MAKERS.findall(ast.unparse(tree))]
    assert talking == TALK_TO_DAGSTER.keys()
    assert making == []


def test_rows_are_kept_in_one_way() -> None:
    """One copy on one executor is lost with it (spark.table.spark_session.compute_once)."""
    kept = [
        f"{file}:{call.lineno}"
        for file, call in nodes(ast.Call)
        if getattr(call.func, "attr", "") in ("checkpoint", "localCheckpoint") and file != "spark/table/spark_session.py"
    ]
    assert kept == [], "rows.transform(compute_once)"


def test_no_other_binary_is_committed() -> None:
    asked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if asked.returncode:
        pytest.skip(f"not a clone: {asked.stderr.strip()}")
    files = [ROOT / name for name in asked.stdout.split("\0") if name]
    assert {file.relative_to(ROOT).as_posix() for file in files if file.is_file() and b"\0" in file.read_bytes()} == BINARIES
