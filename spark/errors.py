"""The error tree of the Spark jobs: each message carries the value, its place and the next command or setting."""

from __future__ import annotations


class SparkJobError(Exception):
    """Root of every error that these jobs raise on purpose."""


class JobRefusedError(SparkJobError):
    """What a job is given, or asked for, cannot be done, and nothing is written; the text says what has to change first."""


class EndpointError(SparkJobError):
    """The lake's object store, or a schema registry, does not answer, or refuses."""


class TableHeldError(SparkJobError):
    """Somebody else writes a table in an object store. `is_lost`: since this writer has begun, so that a commit may be gone."""

    def __init__(self, message: str, *, is_lost: bool = False) -> None:
        super().__init__(message)
        self.is_lost = is_lost


class CommitUncertainError(SparkJobError):
    """The store has not said whether a commit is made, and may still make it."""


class CommitLeftOutError(SparkJobError):
    """The write returned, and Delta has no commit of it: another one has come before, or it got lost on the way."""


class HistoryTooShortError(SparkJobError):
    """The part of the Delta history that was read does not reach back to the commit that the newest one builds on."""


class TableStopError(SparkJobError):
    """A table cannot go on as it is, or as it is declared; the others can."""


class RebuildNeededError(TableStopError):
    """A table cannot go on under today's rules; made anew from bronze it can."""


class StatementStopError(SparkJobError):
    """A statement of ours ended itself by `raise_error(mark)`, before anything was committed; it is done another way."""


class LeftToSparkError(SparkJobError):
    """A batch holds, or a table has, what the writer of small tables leaves to Spark's."""


class BronzeExpiredError(SparkJobError):
    """All events of a table are asked for, and bronze has given the first of them to the backup; nothing is written."""

    def __init__(self, source: str, table: str, message: str) -> None:
        super().__init__(message)
        self.source, self.table = source, table


def quantity(count: int, noun: str, *, form: str = "") -> str:
    """A number and its noun in a message: `1 row`, `2 rows`; `form` is Python's for the number (`,` groups thousands)."""
    if count == 1:
        return f"1 {noun}"
    # entry: entries; key: keys.
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:{form}} {plural}"


WITH_ITS_WRITER = "read it with the cdc that wrote it; cdc --version tells which one this is"


def other_format(place: str, what: str, number: object, reads: int, *, instead: str = WITH_ITS_WRITER) -> str:
    """Why something of ours is not read, in the same words for each format; empty where its number is the one that is read.

    `place` is where it lies, `what` it is with its article, `instead` what to do.
    """
    if type(number) is int and number == reads:
        return ""
    return f"{place} is {what} of format {'none' if number is None else number}, this cdc reads {reads}: {instead}"
