"""The error tree of the orchestrating package, and the findings of a registry that cannot be loaded, in a user's words.

One root, so that every door (CLI, Dagster, Component) can turn any of our failures into one clear line.
Each message carries the value, the place it came from and what to do next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_assets.registry.display_text import Complaint, common_causes
from spark.errors import SparkJobError, quantity


class CdcAssetsError(Exception):
    """Root of every error that this package raises on purpose."""


ON_PURPOSE = (CdcAssetsError, SparkJobError)
"""What ends a piece of work with one clear line, wherever it was raised."""


class MissingAddressError(CdcAssetsError):
    """An address of a service is neither set in the environment nor known from a running stack."""

    def __init__(self, name: str, what: str, *, is_of_stack: bool) -> None:
        """`is_of_stack`: the embedded stack sets it, so that starting that one is another way."""
        stack = ", or start the embedded stack: ./cdc up" if is_of_stack else ""
        super().__init__(f"{name} is not set: where is {what}? Set {name}{stack}")
        self.name = name


class LakeAddressError(CdcAssetsError):
    """CDC_LAKE names no place that a lake can lie in."""


class MissingSecretError(CdcAssetsError):
    """A secret that the registry refers to cannot be found."""

    def __init__(self, name: str, tried: Iterable[str]) -> None:
        super().__init__(f"secret {name!r} is missing; looked for {', '.join(tried)}")
        self.name = name


class UserDefinitionsError(CdcAssetsError):
    """What CDC_DEFINITIONS names cannot be loaded, or does not fit beside the chains."""

    def __init__(self, named: str, reason: Exception) -> None:
        text = (str(reason).strip().splitlines() or ["no reason given"])[0]
        super().__init__(
            f"CDC_DEFINITIONS={named} is not loaded: {type(reason).__name__}: {text}; mend it, then: ./cdc up; "
            "without it: CDC_DEFINITIONS= ./cdc up"
        )


class NothingToRunError(CdcAssetsError):
    """A job's spec is asked for, and there is nothing for the job to do."""


class LeftToSparkViewError(CdcAssetsError):
    """What is new of a table is folded by Spark only, so that only Spark's view shows the table as it is now."""

    def __init__(self, table: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{table}: only Spark shows it as it is now: {reason}; docs/how-to/read-now.md#spark")


class LakeSqlError(CdcAssetsError):
    """A statement of `cdc sql` is no question, names a table that there is not, or is refused by the engine."""


class AlertsError(CdcAssetsError):
    """The channels of CDC_ALERTS cannot be read, or one does not take a message."""


class TracesError(CdcAssetsError):
    """An OpenTelemetry collector does not take what is sent."""


class RunsKeptError(CdcAssetsError):
    """CDC_RUNS_KEPT is no number of days."""


class MetricsError(CdcAssetsError):
    """The figures cannot be served."""


class ConnectError(CdcAssetsError):
    """Kafka Connect refused, failed, or did not answer within the deadline."""


class ConnectorExistsError(ConnectError):
    """A connector is to be created, and Connect has one of that name."""


class ConnectorFailedError(ConnectError):
    """A connector, or one of its tasks, is FAILED; carries the first line of each trace."""


class OwnerError(ConnectError):
    """A connector or a topic is not ours to write: its source is declared to be managed from git."""


class OffsetsRemainError(ConnectError):
    """A connector is created again under a name whose offsets Connect has kept; somebody has to say whether they hold."""


class KafkaError(CdcAssetsError):
    """A Kafka cluster refused, failed, or did not answer within the deadline."""


class TopicDeniedError(KafkaError):
    """The login may not read one `topic` of those that were asked for; the others may be read."""

    def __init__(self, topic: str, place: str) -> None:
        self.topic = topic
        way = "allow its login to read there (docs/how-to/kafka-login.md)"
        super().__init__(f"topic {topic} at {place} may not be read: {way}")


class DatabaseError(CdcAssetsError):
    """A source database cannot be reached, or refused what we asked of it."""


class CutRefusedError(DatabaseError):
    """A server gives no exact moment of its log to us. Its rows can be compared in two steps."""


class PreflightError(CdcAssetsError):
    """A source does not have what its connector cannot do without."""


class DriverMissingError(DatabaseError):
    """The package that a kind of database is asked through is not installed; `what` says so, `install` is the command."""

    def __init__(self, kind: str, package: str, install: str = "uv sync --inexact --only-group databases") -> None:
        self.what, self.install = f"{kind} is asked through {package}, which is not installed", install
        super().__init__(f"{self.what}: {install}")


class HistoryWithoutKeyError(CdcAssetsError):
    """A table without key is declared with a history."""


class TableFailuresError(CdcAssetsError):
    """Some tables of a run failed; the others are committed and recorded."""

    def __init__(self, layer: str, failures: dict[str, str]) -> None:
        complaints = [Complaint(table, table.rpartition("/")[2], reason) for table, reason in sorted(failures.items())]
        lines = "\n".join(
            f"  {', '.join(complaint.place for complaint in same)}: {same[0].text}" for same in common_causes(complaints)
        )
        super().__init__(f"{layer}: {quantity(len(failures), 'table')} failed, all others are done:\n{lines}")
        self.failures = failures


class TableBusyError(CdcAssetsError):
    """Another run holds the table."""


class CutError(CdcAssetsError):
    """A cut of a source cannot be made now, is not there, or names what the lake does not have any more."""


class SparkRunError(CdcAssetsError):
    """A Spark job failed, or Spark Connect cannot be reached."""


class CaughtUpTimeoutError(CdcAssetsError):
    """The chain did not reach a log position in time."""


class NoPlaceError(CdcAssetsError):
    """No place of a source's log can be named, so nobody can say what the lake has."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: nothing was waited for, since no place of its log has a name: {reason}")
        self.reason = reason


class TopicGapError(CdcAssetsError):
    """Records that bronze has not read are gone from a topic, or the topic is another one than before."""


class StoreError(CdcAssetsError):
    """An object store refused, or does not have what was asked for."""


class BackupError(CdcAssetsError):
    """A backup cannot go on from what is in the store."""


class DamagedObjectError(BackupError):
    """An object of a backup is not what its manifest says."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key} {reason}")
        self.key = key


class RestoreError(CdcAssetsError):
    """A restore cannot be done as it is asked for; nothing that was there is touched."""


class SubjectsError(CdcAssetsError):
    """A schema registry does not answer, or takes a schema otherwise than asked."""


class OnboardingError(CdcAssetsError):
    """Tables cannot be taken into (or out of) a running connector, or a step of it did not come to its end."""


class DefinitionsError(CdcAssetsError):
    """The running Dagster does not have what the registry declares, or cannot be asked."""


class LedgerEmptyError(CdcAssetsError):
    """A table has no ledger yet."""

    def __init__(self, table: str) -> None:
        super().__init__(f"nothing of {table} is counted yet: cdc ledger {table} --count")


class PlotsMissingError(CdcAssetsError):
    """A picture was asked for, and matplotlib is not installed."""

    def __init__(self) -> None:
        super().__init__("plots need matplotlib, which is not installed: ./cdc up installs it, or pip install matplotlib")


class AdoptionError(CdcAssetsError):
    """A running connector cannot be taken over as it is; nothing was written."""


class RenderError(CdcAssetsError):
    """Manifests cannot be made from the registry and the deployment, or would overwrite what is not ours."""


class MirrorError(CdcAssetsError):
    """A mirror has lost records, or cannot be repaired the way that was asked for."""


class IncarnationError(CdcAssetsError):
    """A source's server was restored, or is another one, and its connector must not go on from its offset."""


class RemovalError(CdcAssetsError):
    """A source cannot be removed as it was asked for, or a part of it did not go."""


class BenchError(CdcAssetsError):
    """`cdc bench` cannot measure, or what it measured made wrong rows."""


@dataclass(frozen=True)
class RegistryFinding:
    """One thing wrong at one place."""

    file: Path
    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}" if self.line else str(self.file)
        return f"{location}: {self.path + ': ' if self.path else ''}{self.message}"


class RegistryError(CdcAssetsError):
    """The registry cannot be used; holds every finding, not only the first."""

    def __init__(self, findings: Sequence[RegistryFinding]) -> None:
        super().__init__("\n".join(str(finding) for finding in findings))
        self.findings = tuple(findings)


Context = Mapping[str, Any]


def plain_words(found: Mapping[str, Any]) -> str:
    """One entry of `ValidationError.errors()` as a phrase without the value; pydantic's own where we have no better one."""
    say = _SAID.get(found["type"])
    return str(found["msg"]) if say is None else say(found.get("ctx") or {})


def _among(context: Context) -> str:
    return f"no such value; accepted: {str(context['expected']).replace(' or ', ', ').replace(chr(39), '')}"


def _at_least(context: Context) -> str:
    least = int(context["min_length"])
    return "must not be empty" if least == 1 else f"needs {quantity(least, 'entry')} or more"


def _always(text: str) -> Callable[[Context], str]:
    return lambda _: text


_SAID: Mapping[str, Callable[[Context], str]] = {
    "missing": _always("is missing"),
    "extra_forbidden": _always("unknown key"),
    "value_error": lambda context: str(context["error"]),
    "literal_error": _among,
    "enum": _among,
    "string_pattern_mismatch": lambda context: f"is not written as it must be: {context['pattern']}",
    "string_too_short": _at_least,
    "too_short": _at_least,
    "greater_than_equal": lambda context: f"must be {context['ge']:g} or more",
    "greater_than": lambda context: f"must be more than {context['gt']:g}",
    "less_than_equal": lambda context: f"must be {context['le']:g} or less",
    "less_than": lambda context: f"must be less than {context['lt']:g}",
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float", "int_parsing_size"), _always("must be a whole number")),
    **dict.fromkeys(("float_parsing", "float_type", "finite_number"), _always("must be a number")),
    **dict.fromkeys(("bool_parsing", "bool_type"), _always("must be true or false")),
    "string_type": _always("must be a text"),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), _always("must be a mapping (key: value)")),
    **dict.fromkeys(("tuple_type", "list_type", "iterable_type"), _always("must be a list")),
    "union_tag_not_found": lambda context: f"says no {context['discriminator']}".replace("'", ""),
}
