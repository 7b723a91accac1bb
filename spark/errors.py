"""The error tree of the Spark jobs: each message carries the value, its place and the next command or setting."""

from __future__ import annotations

from typing import ClassVar


class SparkJobError(Exception):
    """Root of every error that these jobs raise on purpose."""


class SpecError(SparkJobError):
    """A spec cannot be read, or asks for something impossible."""


class KafkaLoginError(SparkJobError):
    """A Kafka client's properties cannot be used, or the cluster refuses them."""


class SchemaRegistryError(SparkJobError):
    """A schema registry does not answer, or has no schema that can be read here."""


class LakePlaceError(SparkJobError):
    """No lake can lie where CDC_LAKE says."""


class LakeStoreError(SparkJobError):
    """The lake's object store does not answer, or refuses."""


class LeaseHeldError(SparkJobError):
    """Somebody else writes a table in an object store, and goes on doing so."""


class LeaseLostError(SparkJobError):
    """Another writer took a table in an object store while this one wrote it."""


class CommitUncertainError(SparkJobError):
    """The store has not said whether a commit is made, and may still make it."""


class CommitMetadataError(SparkJobError):
    """The metadata of a Delta commit cannot be read, or contradicts another commit."""


class HistoryTooShortError(CommitMetadataError):
    """The part of the Delta history that was read does not reach back to the commit that the newest one builds on."""


class RangeGapError(SparkJobError):
    """A range starts after what bronze has committed: the records between would be lost."""


class RangeLostError(SparkJobError):
    """Kafka no longer has, or does not hand out, records of a range."""


class TopicChangedError(SparkJobError):
    """A topic was recreated: another topic id under the epoch that bronze has already committed."""


class CommitNotFoundError(SparkJobError):
    """The write returned, but its commit is not in the Delta log or holds another number of rows."""


class CommitLeftOutError(CommitNotFoundError):
    """The write returned, and Delta has no commit of it: another one has come before, or it got lost on the way."""


class UnsupportedEventError(SparkJobError):
    """An event is well formed, but the table's declaration says to stop at it."""


class StreamCheckpointError(SparkJobError):
    """The checkpoint of a stream does not tell a batch's offsets."""


class StatementStopError(SparkJobError):
    """A statement of ours ended itself by `raise_error(mark)`, before anything was committed."""

    mark: ClassVar[str]


class NotPlainError(StatementStopError):
    """The newest changes hold more than plain rows: a part of a row, a TRUNCATE, or what cannot be folded."""

    mark = "CDC_NOT_PLAIN"


class NotExactError(SparkJobError):
    """A value does not become one of the lake's by Arrow exactly: Spark has to look at its record."""


class LeftToSparkError(SparkJobError):
    """A batch holds, or a table has, what the writer of small tables leaves to Spark's."""


class RowMissingError(StatementStopError):
    """A change holds some columns only, and no row is there to keep its others."""

    mark = "CDC_NO_ROW_FOR_A_PART"


class NoViewError(SparkJobError):
    """What a table will be once it is folded cannot be told without folding it, or not in this session."""


class QuarantineFullError(SparkJobError):
    """More records of a table cannot be folded than its limit allows."""


class ColumnTypeError(SparkJobError):
    """A source type has no lake type."""


class SchemaMismatchError(SparkJobError):
    """The table in the lake and the columns of the source contradict each other."""


class NotComparableError(SparkJobError):
    """A table cannot be compared with its source at this moment, or as it is declared."""


class NotInSqlError(SparkJobError):
    """A name or a value cannot be said in the SQL of a database, or to its driver."""


class ForeignTableError(SchemaMismatchError):
    """Where a table of ours is to be, there is one that we have not written."""


class RebuildNeededError(SchemaMismatchError):
    """A table cannot go on under today's rules; made anew from bronze it can."""


class KeyDefinitionError(RebuildNeededError):
    """The columns that tell a table's rows apart are others than those that silver was folded by."""


class RowChoiceError(RebuildNeededError):
    """A table's `where` keeps other rows than those that silver was folded by."""


class BronzeExpiredError(SparkJobError):
    """All events of a table are asked for, and bronze has given the first of them to the backup; nothing is written."""

    def __init__(self, source: str, table: str, message: str) -> None:
        super().__init__(message)
        self.source, self.table = source, table


class MaintenanceError(SparkJobError):
    """A table does not hold what was found out of it a moment ago."""


class ReplayError(SparkJobError):
    """A table cannot be made again from bronze, or not be put back as it was."""


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
