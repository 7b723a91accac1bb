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

    `place` is `module:attribute` below `cdc_assets.cli`: a function, or a `typer.Typer` for a group.
    """

    place: str
    summary: str
    context: Mapping[str, Any] = field(default_factory=dict)


_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}

GROUPS: Mapping[str, Mapping[str, Verb]] = {
    "The stack": {
        "up": Verb("up:up", "Start everything, wait until it is healthy, carry the sources."),
        "down": Verb("down:down", "Stop the stack; --wipe removes its data."),
        "status": Verb("status:status", "Show what runs, how far each table is, what its checks say."),
        "logs": Verb("logs:logs", "Print a component's log."),
        "env": Verb("env:env", "Print the running stack's addresses as `export` lines."),
        "traffic": Verb("traffic:traffic", "Write to the bank while it is captured."),
        "bench": Verb("bench:bench", "Measure how fast bronze and silver are here."),
        "licences": Verb("licences:licences", "List what is used, with its licence; --sbom as CycloneDX."),
        "test": Verb("test:test", "Run all tests, or what pytest arguments select.", _ANYTHING),
    },
    "Sources and tables": {
        "validate": Verb("validate:validate", "Check the registry's files; no service is asked."),
        "reload": Verb("reload:reload", "Take the registry as it is now into the running Dagster."),
        "stream": Verb("stream:stream", "Carry bronze and silver in a loop: continuous mode."),
        "adopt": Verb("adopt:adopt", "Take over a connector that runs; it is left as it is."),
        "onboard": Verb("onboard:onboard", "Take tables into a running connector; no change is lost."),
        "offboard": Verb("onboard:offboard", "Take tables out of a running connector; the data stays."),
        "snapshot": Verb("snapshot:snapshot", "Read a table again, by its running connector."),
        "remove": Verb("remove:remove", "Remove a source; its data stays unless it is named."),
        "render": Verb("render:render_verb", "Write manifests from the registry."),
    },
    "Look at the data": {
        "sql": Verb("sql:sql", "Ask the lake's tables in SQL; list them without a statement."),
        "cut": Verb("cut:app", "Consistent cuts of all tables of a source: list, show, make."),
        "now": Verb("now:now", "Print a table's rows as they are now, ahead of silver."),
        "peek": Verb("peek:peek", "Print records of a topic, decoded; -f follows it."),
        "notebook": Verb("notebook:notebook", "Start JupyterLab over the lake, with three notebooks."),
    },
    "Is it right?": {
        "preflight": Verb("preflight:preflight", "Check what capture needs at the source databases."),
        "alerts": Verb("alerts:alerts", "List who is told what went red; --test tells them."),
        "metrics": Verb("metrics:metrics", "Serve lags, rows, events and checks to Prometheus."),
        "wait": Verb("wait:wait", "Wait for the lake to hold what the sources hold now."),
        "reconcile": Verb("reconcile:reconcile", "Compare every row of silver with the source."),
        "ledger": Verb("ledger:ledger", "Count a table's events by window, in every link."),
    },
    "Spark jobs by hand": {
        "spec": Verb("spec:spec", "Print the spec of the Spark job that an asset would run."),
        "spark-submit": Verb("spark_submit:spark_submit", "Run one of those jobs by spark-submit.", _ANYTHING),
    },
    "Backup": {
        "backup": Verb("backup:app", "Verify the backups: name what is damaged, missing or foreign."),
        "restore": Verb("restore:restore", "Make a source's tables from its backup."),
        "drill": Verb("drill:drill", "Prove that a source's backup restores what silver holds."),
    },
    "Mend": {
        "repair": Verb("repair:app", "Mend what a red check has named."),
        "maintain": Verb("maintain:maintain", "Keep tables small and fast; --dry-run says what is due."),
        "replay": Verb("replay:replay", "Make a table again from bronze; --undo takes it back."),
        "quarantine": Verb("quarantine:app", "Records that silver could not fold: list, show, redrive, drop."),
    },
    "Connectors": {
        "diff": Verb("diff:diff", "Show what `cdc apply` would change."),
        "apply": Verb("diff:apply", "Bring the connectors to what is declared."),
        "get": Verb("get:get", "List connectors, tables, topics or mirrors, failed first."),
        "describe": Verb("get:describe", "Show all that Connect knows of one connector."),
        "restart": Verb("connector_verbs:restart", "Restart what has failed of connectors."),
        "pause": Verb("connector_verbs:pause", "Pause connectors; for longer, stop them."),
        "resume": Verb("connector_verbs:resume", "Let paused or stopped connectors run."),
        "stop": Verb("connector_verbs:stop", "Stop connectors; config and offsets stay."),
        "offsets": Verb("offsets:app", "Get, set or reset where a connector goes on from."),
    },
}
"""By the title under which `cdc --help` shows them."""

VERBS: Mapping[str, Verb] = {name: verb for verbs in GROUPS.values() for name, verb in verbs.items()}
