"""The error tree of the orchestrating package, and the findings of a registry that cannot be loaded, in a user's words.

One root, so that every door (CLI, Dagster, Component) can turn any of our failures into one clear line.
Each message carries the value, the place it came from and what to do next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from cdc_assets.registry.display_text import Complaint, common_causes
from spark.errors import SparkJobError, quantity


class CdcAssetsError(Exception):
    """Root of every error that this package raises on purpose."""


class RefusalError(CdcAssetsError):
    """What was asked for is refused, or stops before its end; the text says what is done, and what has to be done first."""


class SettingError(CdcAssetsError):
    """A variable, a file that it names, or a library that it needs is not as it must be: somebody has to change it."""


class MissingAddressError(CdcAssetsError):
    """An address of a service is neither set in the environment nor known from a running stack."""

    def __init__(self, name: str, what: str, *, is_of_stack: bool) -> None:
        """`is_of_stack`: the embedded stack sets it, so that starting that one is another way."""
        stack = ", or start the embedded stack: ./cdc up" if is_of_stack else ""
        super().__init__(f"{name} is not set: where is {what}? Set {name}{stack}")
        self.name = name


class MissingSecretError(CdcAssetsError):
    """A secret that the registry refers to cannot be found."""

    def __init__(self, name: str, tried: Iterable[str]) -> None:
        super().__init__(f"secret {name!r} is missing; looked for {', '.join(tried)}")
        self.name = name


class ServiceError(CdcAssetsError):
    """Connect, Kafka, Dagster, a schema registry, a channel or a collector does not answer in time, or refuses; or git owns it.

    `how` is `silent` where it may answer in a moment, and `exists` where it has what was to be created. `topic` is the one topic
    that a login may not read; those beside it may be read.
    """

    def __init__(self, message: str, *, how: Literal["refused", "silent", "exists"] = "refused", topic: str = "") -> None:
        super().__init__(message)
        self.how, self.topic = how, topic

    @classmethod
    def of_topic(cls, topic: str, place: str) -> ServiceError:
        """The login may not read this topic of those that were asked for."""
        way = "allow its login to read there (docs/how-to/kafka-login.md)"
        return cls(f"topic {topic} at {place} may not be read: {way}", topic=topic)


class DatabaseError(CdcAssetsError):
    """A source database cannot be reached, or refused what we asked of it.

    `install` is the command that brings the driver of its kind, where that is what is missing.
    """

    def __init__(self, message: str, *, install: str = "") -> None:
        super().__init__(f"{message}: {install}" if install else message)
        self.message, self.install = message, install

    @classmethod
    def without_driver(cls, kind: str, package: str, install: str = "uv sync --inexact --only-group databases") -> DatabaseError:
        """The package that a kind of database is asked through is not installed."""
        return cls(f"{kind} is asked through {package}, which is not installed", install=install)


class CutRefusedError(DatabaseError):
    """A server gives no exact moment of its log to us. Its rows can be compared in two steps."""


class SparkRunError(CdcAssetsError):
    """A Spark job failed, or Spark Connect cannot be reached."""


class FailuresError(CdcAssetsError):
    """Some tables, or some steps, of a run failed; the others are done. `failures` says of each why."""

    def __init__(self, message: str, failures: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.failures = dict(failures)

    @classmethod
    def of_tables(cls, layer: str, failures: Mapping[str, str]) -> FailuresError:
        """Of tables of one layer; those with one cause share a line."""
        complaints = [Complaint(table, table.rpartition("/")[2], reason) for table, reason in sorted(failures.items())]
        lines = "\n".join(
            f"  {', '.join(complaint.place for complaint in same)}: {same[0].text}" for same in common_causes(complaints)
        )
        return cls(f"{layer}: {quantity(len(failures), 'table')} failed, all others are done:\n{lines}", failures)


class TableBusyError(CdcAssetsError):
    """Another run works on the table: it is tried again later, or left to that run."""


class TopicGapError(CdcAssetsError):
    """Records that bronze has not read are gone from a topic, or the topic is another one than before."""


class StoreError(CdcAssetsError):
    """An object store refused, or does not have what was asked for."""


class BackupError(CdcAssetsError):
    """A backup cannot go on from what is in the store. `damaged` is the key of an object that is not what its manifest says."""

    def __init__(self, message: str, *, damaged: str = "") -> None:
        super().__init__(message)
        self.damaged = damaged

    @classmethod
    def of_object(cls, key: str, reason: str) -> BackupError:
        """One object is damaged, for this reason."""
        return cls(f"{key} {reason}", damaged=key)


ON_PURPOSE = (CdcAssetsError, SparkJobError)
"""What ends a piece of work with one clear line, wherever it was raised."""


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
