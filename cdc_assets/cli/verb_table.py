"""Every verb of `cdc`: where it is defined, and what `cdc --help` says of it.

The summaries stand here so that the list is printed without loading a verb; each fits its line on a terminal of 80 columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Verb:
    """A verb, or a group of verbs.

    `load` gives, by the verb's name, its function, or a `typer.Typer` for a group. What `changes` the stack, a source or the lake
    is in the log of commands.
    """

    load: Callable[[str], Any]
    summary: str
    changes: bool
    context: Mapping[str, Any] = field(default_factory=dict)


# Each imports one file only: all of them take a second (test_cli_imports.py).
def _of_stack_verbs(name: str) -> Any:
    from cdc_assets.cli.verbs import stack_verbs

    return {
        "up": stack_verbs.up,
        "down": stack_verbs.down,
        "logs": stack_verbs.logs,
        "env": stack_verbs.env,
        "traffic": stack_verbs.traffic,
    }[name]


def _of_software_verbs(name: str) -> Any:
    from cdc_assets.cli.verbs import software_verbs

    return {"bench": software_verbs.bench, "licences": software_verbs.licences, "test": software_verbs.test}[name]


def _of_registry_verbs(name: str) -> Any:
    from cdc_assets.cli.verbs import registry_verbs

    return {"validate": registry_verbs.validate, "reload": registry_verbs.reload}[name]


def _of_stream_and_wait(name: str) -> Any:
    from cdc_assets.cli.verbs import stream_and_wait

    return {"stream": stream_and_wait.stream, "wait": stream_and_wait.wait}[name]


def _of_source_verbs(name: str) -> Any:
    from cdc_assets.cli.verbs import source_verbs

    return {
        "adopt": source_verbs.adopt,
        "onboard": source_verbs.onboard,
        "offboard": source_verbs.offboard,
        "remove": source_verbs.remove,
    }[name]


def _of_connectors(name: str) -> Any:
    from cdc_assets.cli.verbs import connectors

    return {
        "snapshot": connectors.snapshot,
        "preflight": connectors.preflight,
        "diff": connectors.diff,
        "apply": connectors.apply,
        "restart": connectors.restart,
        "pause": connectors.pause,
        "resume": connectors.resume,
        "stop": connectors.stop,
        "offsets": connectors.offsets_app,
    }[name]


def _of_lake_queries(name: str) -> Any:
    from cdc_assets.cli.verbs import lake_queries

    return {
        "sql": lake_queries.sql,
        "cut": lake_queries.cut_app,
        "now": lake_queries.now,
        "peek": lake_queries.peek,
        "notebook": lake_queries.notebook,
    }[name]


def _of_monitoring(name: str) -> Any:
    from cdc_assets.cli.verbs import monitoring

    return {"alerts": monitoring.alerts, "metrics": monitoring.metrics}[name]


def _of_spark_jobs(name: str) -> Any:
    from cdc_assets.cli.verbs import spark_jobs

    return {"spec": spark_jobs.spec, "spark-submit": spark_jobs.spark_submit}[name]


def _of_restore(name: str) -> Any:
    from cdc_assets.cli.verbs import restore

    return {"restore": restore.restore, "drill": restore.drill}[name]


def _of_upkeep(name: str) -> Any:
    from cdc_assets.cli.verbs import upkeep

    return {"maintain": upkeep.maintain, "replay": upkeep.replay}[name]


def _of_get(name: str) -> Any:
    from cdc_assets.cli.verbs import get

    return {"get": get.get, "describe": get.describe}[name]


def _lone_verb(name: str) -> Any:
    """Of a file that has one verb, or one group of verbs."""
    match name:
        case "status":
            from cdc_assets.cli.verbs import status

            return status.status
        case "render":
            from cdc_assets.cli.verbs import render

            return render.render_verb
        case "reconcile":
            from cdc_assets.cli.verbs import reconcile

            return reconcile.reconcile
        case "ledger":
            from cdc_assets.cli.verbs import ledger

            return ledger.ledger
        case "backup":
            from cdc_assets.cli.verbs import backup

            return backup.app
        case "repair":
            from cdc_assets.cli.verbs import repair

            return repair.app
        case "quarantine":
            from cdc_assets.cli.verbs import quarantine

            return quarantine.app
    raise KeyError(name)


LOOKS, CHANGES = False, True
_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}

GROUPS: Mapping[str, Mapping[str, Verb]] = {
    "The stack": {
        "up": Verb(_of_stack_verbs, "Start everything, wait until it is healthy, carry the sources.", CHANGES),
        "down": Verb(_of_stack_verbs, "Stop the stack; --wipe removes its data.", CHANGES),
        "status": Verb(_lone_verb, "Show what runs, how far each table is, what its checks say.", LOOKS),
        "logs": Verb(_of_stack_verbs, "Print a component's log.", LOOKS),
        "env": Verb(_of_stack_verbs, "Print the running stack's addresses as `export` lines.", LOOKS),
        "traffic": Verb(_of_stack_verbs, "Write to the bank while it is captured.", CHANGES),
        "bench": Verb(_of_software_verbs, "Measure how fast bronze and silver are here.", LOOKS),
        "licences": Verb(_of_software_verbs, "List what is used, with its licence; --sbom as CycloneDX.", LOOKS),
        "test": Verb(_of_software_verbs, "Run all tests, or what pytest arguments select.", LOOKS, _ANYTHING),
    },
    "Sources and tables": {
        "validate": Verb(_of_registry_verbs, "Check the registry's files; no service is asked.", LOOKS),
        "reload": Verb(_of_registry_verbs, "Take the registry as it is now into the running Dagster.", CHANGES),
        "stream": Verb(_of_stream_and_wait, "Carry bronze and silver in a loop: continuous mode.", CHANGES),
        "adopt": Verb(_of_source_verbs, "Take over a connector that runs; it is left as it is.", CHANGES),
        "onboard": Verb(_of_source_verbs, "Take tables into a running connector; no change is lost.", CHANGES),
        "offboard": Verb(_of_source_verbs, "Take tables out of a running connector; the data stays.", CHANGES),
        "snapshot": Verb(_of_connectors, "Read a table again, by its running connector.", CHANGES),
        "remove": Verb(_of_source_verbs, "Remove a source; its data stays unless it is named.", CHANGES),
        "render": Verb(_lone_verb, "Write manifests from the registry.", LOOKS),
    },
    "Look at the data": {
        "sql": Verb(_of_lake_queries, "Ask the lake's tables in SQL; list them without a statement.", LOOKS),
        "cut": Verb(_of_lake_queries, "Consistent cuts of all tables of a source: list, show, make.", CHANGES),
        "now": Verb(_of_lake_queries, "Print a table's rows as they are now, ahead of silver.", LOOKS),
        "peek": Verb(_of_lake_queries, "Print records of a topic, decoded; -f follows it.", LOOKS),
        "notebook": Verb(_of_lake_queries, "Start JupyterLab over the lake, with three notebooks.", LOOKS),
    },
    "Is it right?": {
        "preflight": Verb(_of_connectors, "Check what capture needs at the source databases.", LOOKS),
        "alerts": Verb(_of_monitoring, "List who is told what went red; --test tells them.", LOOKS),
        "metrics": Verb(_of_monitoring, "Serve lags, rows, events and checks to Prometheus.", LOOKS),
        "wait": Verb(_of_stream_and_wait, "Wait for the lake to hold what the sources hold now.", LOOKS),
        "reconcile": Verb(_lone_verb, "Compare every row of silver with the source.", CHANGES),
        "ledger": Verb(_lone_verb, "Count a table's events by window, in every link.", CHANGES),
    },
    "Spark jobs by hand": {
        "spec": Verb(_of_spark_jobs, "Print the spec of the Spark job that an asset would run.", LOOKS),
        "spark-submit": Verb(_of_spark_jobs, "Run one of those jobs by spark-submit.", CHANGES, _ANYTHING),
    },
    "Backup": {
        "backup": Verb(_lone_verb, "Verify the backups: name what is damaged, missing or foreign.", LOOKS),
        "restore": Verb(_of_restore, "Make a source's tables from its backup.", CHANGES),
        "drill": Verb(_of_restore, "Prove that a source's backup restores what silver holds.", CHANGES),
    },
    "Mend": {
        "repair": Verb(_lone_verb, "Mend what a red check has named.", CHANGES),
        "maintain": Verb(_of_upkeep, "Keep tables small and fast; --dry-run says what is due.", CHANGES),
        "replay": Verb(_of_upkeep, "Make a table again from bronze; --undo takes it back.", CHANGES),
        "quarantine": Verb(_lone_verb, "Records that silver could not fold: list, show, redrive, drop.", CHANGES),
    },
    "Connectors": {
        "diff": Verb(_of_connectors, "Show what `cdc apply` would change.", LOOKS),
        "apply": Verb(_of_connectors, "Bring the connectors to what is declared.", CHANGES),
        "get": Verb(_of_get, "List connectors, tables, topics or mirrors, failed first.", LOOKS),
        "describe": Verb(_of_get, "Show all that Connect knows of one connector.", LOOKS),
        "restart": Verb(_of_connectors, "Restart what has failed of connectors.", CHANGES),
        "pause": Verb(_of_connectors, "Pause connectors; for longer, stop them.", CHANGES),
        "resume": Verb(_of_connectors, "Let paused or stopped connectors run.", CHANGES),
        "stop": Verb(_of_connectors, "Stop connectors; config and offsets stay.", CHANGES),
        "offsets": Verb(_of_connectors, "Get, set or reset where a connector goes on from.", CHANGES),
    },
}
"""By the title under which `cdc --help` shows them."""

VERBS: Mapping[str, Verb] = {name: verb for verbs in GROUPS.values() for name, verb in verbs.items()}
