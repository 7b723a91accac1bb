"""What a verb costs before it begins: `cdc --help` loads no verb, and no verb loads Dagster only to be described."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from deltalake import write_deltalake

from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verb_table import VERBS

# Together they took a second of every `cdc --help`.
HEAVY = (
    "dagster",
    "pyspark",
    "pydantic",
    "httpx",
    "psutil",
    "confluent_kafka",
    "deltalake",
    "cdc_assets.registry.source_declaration",
)
RUN = """
import sys
sys.argv = ["cdc", *{arguments!r}]
from cdc_assets.cli.cdc_command import main
try:
    main()
except SystemExit as end:
    code = end.code
print("loaded:", *(name for name in {heavy!r} if name in sys.modules), file=sys.stderr)
sys.exit(code)
"""


def loaded(*arguments: str) -> tuple[str, set[str]]:
    """What the command prints, and which heavy modules it has loaded."""
    script = RUN.format(arguments=arguments, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, set(done.stderr.splitlines()[-1].split()[1:])


def test_help_loads_no_verb() -> None:
    told, found = loaded("--help")
    assert found == set()
    assert [name for name, verb in VERBS.items() if f"│ {name}" not in told or verb.summary not in told] == []


def test_every_verb_is_where_the_list_says() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert {name: command.name for name, command in commands.items()} == {name: name for name in VERBS}
    assert [name for name, command in commands.items() if not command.help] == []


def test_a_mistyped_verb_is_told_its_neighbours() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cdc_assets.cli", "staus"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "'status'" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["up", "status", "wait", "onboard", "logs", "get", "diff"])
def test_a_verb_is_described_without_dagster(verb: str) -> None:
    told, found = loaded(verb, "--help")
    assert "--help" in told
    assert found & {"dagster", "pyspark"} == set()


def test_rows_of_a_table_are_counted_without_pandas(tmp_path: Path) -> None:
    """`cdc status` counts them of each table; pyarrow's table() loads pandas, a third of what the verb took."""
    table = tmp_path / "table"
    write_deltalake(str(table), pa.table({"a": [1, 2, 3]}))
    script = (
        "import sys; from cdc_assets.cli.verbs.status import status; from cdc_assets.clients.delta_log import silver_rows; "
        f"print(silver_rows({str(table)!r}), *({{'pandas', 'pyarrow', 'cdc_assets.stack.component_plan'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "3\n"


def test_a_negative_timeout_is_refused() -> None:
    command = [sys.executable, "-m", "cdc_assets.cli", "wait", "--timeout", "-1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "must be 0 or more" in done.stderr
