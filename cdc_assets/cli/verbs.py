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
        "up": Verb("up:up", "Start everything, wait until it is healthy, carry the sources.", CHANGES),
        "down": Verb("down:down", "Stop the stack; --wipe removes its data.", CHANGES),
        "status": Verb("status:status", "Show what runs, how far each table is, what its checks say.", LOOKS),
        "logs": Verb("logs:logs", "Print a component's log.", LOOKS),
        "env": Verb("env:env", "Print the running stack's addresses as `export` lines.", LOOKS),
        "traffic": Verb("traffic:traffic", "Write to the bank while it is captured.", CHANGES),
        "bench": Verb("bench:bench", "Measure how fast bronze and silver are here.", LOOKS),
        "licences": Verb("licences:licences", "List what is used, with its licence; --sbom as CycloneDX.", LOOKS),
        "test": Verb("test:test", "Run all tests, or what pytest arguments select.", LOOKS, _ANYTHING),
    },
    "Sources and tables": {
        "validate": Verb("validate:validate", "Check the registry's files; no service is asked.", LOOKS),
        "reload": Verb("reload:reload", "Take the registry as it is now into the running Dagster.", CHANGES),
        "stream": Verb("stream:stream", "Carry bronze and silver in a loop: continuous mode.", CHANGES),
        "adopt": Verb("adopt:adopt", "Take over a connector that runs; it is left as it is.", CHANGES),
        "onboard": Verb("onboard:onboard", "Take tables into a running connector; no change is lost.", CHANGES),
        "offboard": Verb("onboard:offboard", "Take tables out of a running connector; the data stays.", CHANGES),
        "snapshot": Verb("snapshot:snapshot", "Read a table again, by its running connector.", CHANGES),
        "remove": Verb("remove:remove", "Remove a source; its data stays unless it is named.", CHANGES),
        "render": Verb("render:render_verb", "Write manifests from the registry.", LOOKS),
    },
    "Look at the data": {
        "sql": Verb("sql:sql", "Ask the lake's tables in SQL; list them without a statement.", LOOKS),
        "cut": Verb("cut:app", "Consistent cuts of all tables of a source: list, show, make.", CHANGES),
        "now": Verb("now:now", "Print a table's rows as they are now, ahead of silver.", LOOKS),
        "peek": Verb("peek:peek", "Print records of a topic, decoded; -f follows it.", LOOKS),
        "notebook": Verb("notebook:notebook", "Start JupyterLab over the lake, with three notebooks.", LOOKS),
    },
    "Is it right?": {
        "preflight": Verb("preflight:preflight", "Check what capture needs at the source databases.", LOOKS),
        "alerts": Verb("alerts:alerts", "List who is told what went red; --test tells them.", LOOKS),
        "metrics": Verb("metrics:metrics", "Serve lags, rows, events and checks to Prometheus.", LOOKS),
        "wait": Verb("wait:wait", "Wait for the lake to hold what the sources hold now.", LOOKS),
        "reconcile": Verb("reconcile:reconcile", "Compare every row of silver with the source.", CHANGES),
        "ledger": Verb("ledger:ledger", "Count a table's events by window, in every link.", CHANGES),
    },
    "Spark jobs by hand": {
        "spec": Verb("spec:spec", "Print the spec of the Spark job that an asset would run.", LOOKS),
        "spark-submit": Verb("spark_submit:spark_submit", "Run one of those jobs by spark-submit.", CHANGES, _ANYTHING),
    },
    "Backup": {
        "backup": Verb("backup:app", "Verify the backups: name what is damaged, missing or foreign.", LOOKS),
        "restore": Verb("restore:restore", "Make a source's tables from its backup.", CHANGES),
        "drill": Verb("drill:drill", "Prove that a source's backup restores what silver holds.", CHANGES),
    },
    "Mend": {
        "repair": Verb("repair:app", "Mend what a red check has named.", CHANGES),
        "maintain": Verb("maintain:maintain", "Keep tables small and fast; --dry-run says what is due.", CHANGES),
        "replay": Verb("replay:replay", "Make a table again from bronze; --undo takes it back.", CHANGES),
        "quarantine": Verb("quarantine:app", "Records that silver could not fold: list, show, redrive, drop.", CHANGES),
    },
    "Connectors": {
        "diff": Verb("diff:diff", "Show what `cdc apply` would change.", LOOKS),
        "apply": Verb("diff:apply", "Bring the connectors to what is declared.", CHANGES),
        "get": Verb("get:get", "List connectors, tables, topics or mirrors, failed first.", LOOKS),
        "describe": Verb("get:describe", "Show all that Connect knows of one connector.", LOOKS),
        "restart": Verb("connector_verbs:restart", "Restart what has failed of connectors.", CHANGES),
        "pause": Verb("connector_verbs:pause", "Pause connectors; for longer, stop them.", CHANGES),
        "resume": Verb("connector_verbs:resume", "Let paused or stopped connectors run.", CHANGES),
        "stop": Verb("connector_verbs:stop", "Stop connectors; config and offsets stay.", CHANGES),
        "offsets": Verb("offsets:app", "Get, set or reset where a connector goes on from.", CHANGES),
    },
}
"""By the title under which `cdc --help` shows them."""

VERBS: Mapping[str, Verb] = {name: verb for verbs in GROUPS.values() for name, verb in verbs.items()}
