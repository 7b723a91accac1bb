"""Every verb of `cdc`: where it is defined, and what `cdc --help` says of it.

The summaries stand here so that the list is printed without loading a verb; each fits its line on a terminal of 80 columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Verb:
    """A verb, or a group of verbs.

    `place` is `module:attribute` below `cdc_assets.cli`: a function, or a `typer.Typer` for a group. What `changes` the stack, a
    source or the lake is in the log of commands.
    """

    place: str
    summary: str
    changes: bool
    context: Mapping[str, Any] = field(default_factory=dict)


LOOKS, CHANGES = False, True
_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}

GROUPS: Mapping[str, Mapping[str, Verb]] = {
    "The stack": {
        "up": Verb("stack_verbs:up", "Start everything, wait until it is healthy, carry the sources.", CHANGES),
        "down": Verb("stack_verbs:down", "Stop the stack; --wipe removes its data.", CHANGES),
        "status": Verb("status:status", "Show what runs, how far each table is, what its checks say.", LOOKS),
        "logs": Verb("stack_verbs:logs", "Print a component's log.", LOOKS),
        "env": Verb("stack_verbs:env", "Print the running stack's addresses as `export` lines.", LOOKS),
        "traffic": Verb("stack_verbs:traffic", "Write to the bank while it is captured.", CHANGES),
        "bench": Verb("software_verbs:bench", "Measure how fast bronze and silver are here.", LOOKS),
        "licences": Verb("software_verbs:licences", "List what is used, with its licence; --sbom as CycloneDX.", LOOKS),
        "test": Verb("software_verbs:test", "Run all tests, or what pytest arguments select.", LOOKS, _ANYTHING),
    },
    "Sources and tables": {
        "validate": Verb("registry_verbs:validate", "Check the registry's files; no service is asked.", LOOKS),
        "reload": Verb("registry_verbs:reload", "Take the registry as it is now into the running Dagster.", CHANGES),
        "stream": Verb("stream_and_wait:stream", "Carry bronze and silver in a loop: continuous mode.", CHANGES),
        "adopt": Verb("source_verbs:adopt", "Take over a connector that runs; it is left as it is.", CHANGES),
        "onboard": Verb("source_verbs:onboard", "Take tables into a running connector; no change is lost.", CHANGES),
        "offboard": Verb("source_verbs:offboard", "Take tables out of a running connector; the data stays.", CHANGES),
        "snapshot": Verb("connectors:snapshot", "Read a table again, by its running connector.", CHANGES),
        "remove": Verb("source_verbs:remove", "Remove a source; its data stays unless it is named.", CHANGES),
        "render": Verb("render:render_verb", "Write manifests from the registry.", LOOKS),
    },
    "Look at the data": {
        "sql": Verb("lake_queries:sql", "Ask the lake's tables in SQL; list them without a statement.", LOOKS),
        "cut": Verb("lake_queries:cut_app", "Consistent cuts of all tables of a source: list, show, make.", CHANGES),
        "now": Verb("lake_queries:now", "Print a table's rows as they are now, ahead of silver.", LOOKS),
        "peek": Verb("lake_queries:peek", "Print records of a topic, decoded; -f follows it.", LOOKS),
        "notebook": Verb("lake_queries:notebook", "Start JupyterLab over the lake, with three notebooks.", LOOKS),
    },
    "Is it right?": {
        "preflight": Verb("connectors:preflight", "Check what capture needs at the source databases.", LOOKS),
        "alerts": Verb("monitoring:alerts", "List who is told what went red; --test tells them.", LOOKS),
        "metrics": Verb("monitoring:metrics", "Serve lags, rows, events and checks to Prometheus.", LOOKS),
        "wait": Verb("stream_and_wait:wait", "Wait for the lake to hold what the sources hold now.", LOOKS),
        "reconcile": Verb("reconcile:reconcile", "Compare every row of silver with the source.", CHANGES),
        "ledger": Verb("ledger:ledger", "Count a table's events by window, in every link.", CHANGES),
    },
    "Spark jobs by hand": {
        "spec": Verb("spark_jobs:spec", "Print the spec of the Spark job that an asset would run.", LOOKS),
        "spark-submit": Verb("spark_jobs:spark_submit", "Run one of those jobs by spark-submit.", CHANGES, _ANYTHING),
    },
    "Backup": {
        "backup": Verb("backup:app", "Verify the backups: name what is damaged, missing or foreign.", LOOKS),
        "restore": Verb("restore:restore", "Make a source's tables from its backup.", CHANGES),
        "drill": Verb("restore:drill", "Prove that a source's backup restores what silver holds.", CHANGES),
    },
    "Mend": {
        "repair": Verb("repair:app", "Mend what a red check has named.", CHANGES),
        "maintain": Verb("upkeep:maintain", "Keep tables small and fast; --dry-run says what is due.", CHANGES),
        "replay": Verb("upkeep:replay", "Make a table again from bronze; --undo takes it back.", CHANGES),
        "quarantine": Verb("quarantine:app", "Records that silver could not fold: list, show, redrive, drop.", CHANGES),
    },
    "Connectors": {
        "diff": Verb("connectors:diff", "Show what `cdc apply` would change.", LOOKS),
        "apply": Verb("connectors:apply", "Bring the connectors to what is declared.", CHANGES),
        "get": Verb("get:get", "List connectors, tables, topics or mirrors, failed first.", LOOKS),
        "describe": Verb("get:describe", "Show all that Connect knows of one connector.", LOOKS),
        "restart": Verb("connectors:restart", "Restart what has failed of connectors.", CHANGES),
        "pause": Verb("connectors:pause", "Pause connectors; for longer, stop them.", CHANGES),
        "resume": Verb("connectors:resume", "Let paused or stopped connectors run.", CHANGES),
        "stop": Verb("connectors:stop", "Stop connectors; config and offsets stay.", CHANGES),
        "offsets": Verb("connectors:offsets_app", "Get, set or reset where a connector goes on from.", CHANGES),
    },
}
"""By the title under which `cdc --help` shows them."""

VERBS: Mapping[str, Verb] = {name: verb for verbs in GROUPS.values() for name, verb in verbs.items()}
