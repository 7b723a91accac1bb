"""A Delta table of the lake: its commits, columns, properties and files at any version, and commits of ours.

    table_of(path)      the one object of this process for a table; nothing is looked at
    .commits .history .fold .looks .find_commit      what its commits say, newest first
    .metadata .properties .columns                   as they are now, kept between two questions
    .snapshot                                        its files with their deletion vectors, now or at a version
    .create .put .commit                             a commit of ours, whole or not at all

All from the log's own files, on a disk or in an object store. delta-rs opens a table in 5 to 80 ms, by the commits since its last
checkpoint, and Spark's `SHOW TBLPROPERTIES` takes 50 to 120 ms; every append and every fold asks. So what was read once is kept
with the table, and only commits after it are looked at: one that changes columns or properties has an action `metaData`.
delta-rs (1.6.6) tells files without their deletion vectors' places, and a commit that replaces a vector has to name it. It takes
no property of ours at a table's creation, and setting one later declares features that the table does not use (variantType).
https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from typing_extensions import Self

from spark.errors import (
    CommitLeftOutError,
    CommitUncertainError,
    EndpointError,
    HistoryTooShortError,
    LeftToSparkError,
    TableStopError,
    quantity,
)
from spark.table.commit_metadata import Folded, carries, fold_silver, surviving
from spark.table.delta_rs import make_checkpoint, open_delta
from spark.table.lake_location import is_local
from spark.table.log_reader import (
    CHECKPOINT,
    COMMIT_INFO,
    LOG,
    commit_file,
    commit_name,
    commit_names,
    last_checkpoint,
    names_after,
    newest_here,
    newest_names,
    read_checkpoint,
    read_commit,
)
from spark.table.table_folder import LakeFolder, open_folder
from spark.table.write_lease import refuse_lost

if TYPE_CHECKING:
    import pyarrow as pa

    from spark.table.data_files import AddFile

Folding = TypeVar("Folding")
Said = tuple[int, str | None]
"""A version, and the metadata of its commit: None where it has none, or where a RESTORE has undone it."""
Entry = TypeVar("Entry")
FIRST_LOOK, _LARGEST_LOOK = 20, 2_000
_JUST_WRITTEN, _LATE_SECONDS = 2, 1.0
_EVERY = 100
"""Commits between two checkpoints of a table whose property `delta.checkpointInterval` says nothing."""
_CHANGE = b'{"metaData":'
_TRIES, _SECONDS = 3, 0.5
_OF_CHECKPOINT = ("add", "metaData", "protocol")
_OF_ADD = frozenset({"path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags", "deletionVector"})
_MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True)
class Commit:
    """One version of a Delta table; `at` is its writer's clock, or where it tells none its file's time."""

    version: int
    operation: str
    user_metadata: str | None
    metrics: dict[str, str]
    at: datetime = field(compare=False)

    def count(self, metric: str) -> int:
        """A metric of the commit, 0 where Delta did not report it."""
        return int(self.metrics.get(metric, 0))


@dataclass(frozen=True)
class ChangeCommit:
    """A commit that changed rows: its version, and its writer's clock in milliseconds since 1970.

    The time tells it from the commit of that number in a table that was made again.
    """

    version: int
    at: int

    def __str__(self) -> str:
        return f"{self.version}@{self.at}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Of `17@1764491122123`; None for any other text."""
        version, _, at = text.partition("@")
        return cls(int(version), int(at)) if version.isdecimal() and at.isdecimal() else None


@dataclass
class LiveTable:
    """A table's state at a version: `files` by path, each as the `add` that named it; its `protocol` and `metaData`."""

    version: int = -1
    files: dict[str, AddFile] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def apply(self, action: dict[str, Any]) -> None:
        """One action of a commit: a file is known by its path, since only one vector of it is valid at a time."""
        if "add" in action:
            self.files[action["add"]["path"]] = {name: value for name, value in action["add"].items() if name in _OF_ADD}
        elif "remove" in action:
            self._remove(action["remove"])
        elif "metaData" in action:
            self.metadata = action["metaData"]
        elif "protocol" in action:
            self.protocol = action["protocol"]

    def _remove(self, gone: dict[str, Any]) -> None:
        """A commit that gives a file another vector adds it and removes it as it was, in any order."""
        present = self.files.get(gone["path"])
        if present is not None and vector_key(present) == vector_key(gone):
            del self.files[gone["path"]]


def vector_key(file: AddFile) -> tuple[str, int] | None:
    """What tells one deletion vector of a file from another; None: it has none."""
    vector = file.get("deletionVector")
    return (vector["pathOrInlineDv"], vector.get("offset") or 0) if vector else None


def widen(look: Callable[[int | None], list[Entry]], first: int = FIRST_LOOK) -> Iterator[list[Entry]]:
    """The `first` newest commits, then ten times as many, and so on, until these are all of the log."""
    limit: int | None = first
    while True:
        commits = look(limit)
        yield commits
        if limit is None or len(commits) < limit:
            return
        limit = limit * 10 if limit < _LARGEST_LOOK else None


class _Head(NamedTuple):
    """The table at a version. `mark` tells its commit from one of another table, which took this one's place."""

    version: int
    mark: str
    metadata: Mapping[str, Any]


class DeltaTable:
    """The table at a path; `table_of` gives the one of this process. Each method but `create` and `put` asks the log anew."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._head: _Head | None = None

    def commits(self, limit: int | None, *, up_to: int | None = None) -> list[dict[str, Any]]:
        """So many of the newest commits (None: all that the log has) by log_reader.FIELDS, newest first, or from the version
        `up_to` on backwards; none where there is no table.

        Raises:
            EndpointError: the lake's object store does not answer.
        """
        folder = open_folder(self.path)
        for _ in range(_TRIES):
            names = newest_names(folder, limit, up_to)[:limit]
            commits = folder.map(lambda name: read_commit(folder, name), names)
            # The oldest may be cleaned up while they are read.
            there = [commit for commit in commits[: commits.index(None) if None in commits else None] if commit is not None]
            if there or not names:
                return there
        raise FileNotFoundError(f"{self.path}: {commit_file(int(names[0][:20]))} is listed, and is not there; run it again")

    def history(self, limit: int | None) -> list[Commit]:
        """The same without the metadata of those that a RESTORE undid."""
        entries = self.commits(limit)
        kept, times = dict(surviving(entries)), dict[str, float]()
        if any(entry["timestamp"] is None for entry in entries):
            times = {file.name: file.at for file in open_folder(self.path).facts(LOG)}
        return [
            Commit(
                version=entry["version"],
                operation=entry["operation"] or "",
                user_metadata=kept[entry["version"]],
                metrics=dict(entry["operationMetrics"] or {}),
                at=_moment(entry, times),
            )
            for entry in entries
        ]

    def looks(self, first: int = FIRST_LOOK, *, up_to: int | None = None) -> Iterator[list[Said]]:
        """What the `first` newest commits say, then ten times as many, until these are all; RESTOREs are heeded."""
        return widen(lambda limit: surviving(self.commits(limit, up_to=up_to)), first)

    def fold(self, fold: Callable[[list[Said]], Folding], first: int = FIRST_LOOK, *, up_to: int | None = None) -> Folding:
        """The fold of the `first` newest commits, or of as many more as it needs; `up_to`: as the log was at that version.

        Raises:
            HistoryTooShortError: the whole log is too little.
            TableStopError: naming the table: a commit cannot be read.
        """
        for commits in self.looks(first, up_to=up_to):
            try:
                if not commits and up_to is not None and self.commits(1):
                    raise HistoryTooShortError(f"{self.path}: its log does not reach back to version {up_to}")
                return fold(commits)
            except HistoryTooShortError as error:
                too_short = error
            except TableStopError as error:
                raise TableStopError(f"{self.path}: {error}") from error
        raise too_short

    def silver_folded(self, *, up_to: int | None = None) -> Folded | None:
        """What a silver table has folded, at a version where one is given; None when there is no table.

        Raises:
            TableStopError: the table is none of ours.
        """

        def newest(commits: list[Said]) -> Folded | None:
            folded = fold_silver(commits)
            if folded is None and commits and min(version for version, _ in commits) > 0:
                raise HistoryTooShortError(f"{self.path}: no silver commit among the newest {len(commits)}")
            if folded is None and commits:
                self.refuse_foreign()
            return folded

        return self.fold(newest, up_to=up_to)

    def refuse_foreign(self) -> None:
        """Raise TableStopError: nothing is written into, or over, a table that is somebody else's."""
        raise TableStopError(
            f"{self.path} is a Delta table without a commit of ours: it is left as it is; move it, or take another CDC_LAKE "
            "or source name"
        )

    def user_metadata(self, version: int) -> str | None:
        """What the commit of one version says; None where it says nothing, or is not there."""
        commit = read_commit(open_folder(self.path), commit_name(version))
        return None if commit is None else commit["userMetadata"]

    def find_commit(self, operation_id: str, *, rows: int | None = None) -> Commit:
        """The commit that carries our operation id: a write that returned is believed only once it is in the log.

        Raises:
            CommitLeftOutError: none does.
            TableStopError: it has not written so many rows.
        """
        commit = self._find(operation_id, _JUST_WRITTEN)
        if commit is None:
            # A folder of another machine's may show the newest file late.
            time.sleep(_LATE_SECONDS)
            commit = self._find(operation_id, FIRST_LOOK)
        if commit is None:
            text = f"{self.path}: the write returned, but no commit carries operation {operation_id}; run it again"
            raise CommitLeftOutError(text)
        written = commit.count("numOutputRows")
        if rows is not None and written != rows:
            raise TableStopError(
                f"{self.path} version {commit.version}: {quantity(written, 'row')} written, "
                f"{rows} read (operation {operation_id}); do not run it again before the difference is understood"
            )
        return commit

    def _find(self, operation_id: str, limit: int) -> Commit | None:
        return next((commit for commit in self.history(limit) if carries(commit.user_metadata, operation_id)), None)

    def metadata(self) -> Mapping[str, Any]:
        """The newest `metaData` of the log: `id`, `schemaString`, `configuration`, as the protocol has them.

        Raises:
            OSError: the log is not here, does not begin here, or was cleaned up meanwhile.
        """
        folder, head = open_folder(self.path), self._head
        if head is None or not head.mark or head.mark != self.mark(head.version):
            head = self._at_checkpoint(folder)
        for name in names_after(folder, head.version):
            content = folder.read(f"{LOG}/{name}")
            changes = [line for line in content.splitlines() if line.startswith(_CHANGE)]
            metadata = json.loads(changes[-1])["metaData"] if changes else head.metadata
            head = _Head(int(name[:20]), _mark(content), metadata)
        if not head.metadata:
            raise FileNotFoundError(f"{self.path}: no log of a table begins here")
        self._head = head
        return head.metadata

    def _at_checkpoint(self, folder: LakeFolder) -> _Head:
        """The table at its newest checkpoint, before all commits where it has none."""
        checkpoint = last_checkpoint(folder)
        if checkpoint is None:
            return _Head(-1, "", {})
        version = int(checkpoint["version"])
        if _is_one_file(checkpoint):
            [action] = read_checkpoint(folder, version, ("metaData",))
            return _Head(version, self.mark(version), action["metaData"])
        # delta-rs reads those in parts.
        table = open_delta(self.path, version=version)
        metadata = table.metadata()
        facts = {"id": metadata.id, "schemaString": table.schema().to_json(), "configuration": metadata.configuration}
        return _Head(version, self.mark(version), facts)

    def properties(self) -> Mapping[str, str]:
        """The table's properties by name; raises as `metadata`."""
        properties: Mapping[str, str] = self.metadata().get("configuration") or {}
        return properties

    def columns(self) -> tuple[str, ...]:
        """The names of its columns; raises as `metadata`."""
        return tuple(column["name"] for column in json.loads(self.metadata()["schemaString"])["fields"])

    def snapshot(self, version: int | None = None) -> LiveTable:
        """The table as its log has it now, or had it at a version.

        Raises:
            LeftToSparkError: the log has a form that is not read here, or does not reach back so far.
        """
        folder, table = open_folder(self.path), LiveTable()
        if version is None:
            begin = _newest_checkpoint(folder)
        else:
            checkpoints = [int(name[:20]) for name in folder.names(LOG) if CHECKPOINT.fullmatch(name)]
            begin = max((number for number in checkpoints if number <= version), default=None)
        if begin is not None:
            try:
                for action in read_checkpoint(folder, begin, _OF_CHECKPOINT):
                    table.apply(action)
            except OSError as error:
                raise LeftToSparkError(f"the table's checkpoint is not to be read here: {error}") from error
            table.version = begin
        self.catch_up(table, version)
        if not table.protocol or not table.metadata or (version is not None and table.version != version):
            raise LeftToSparkError("the table's log does not begin here")
        return table

    def catch_up(self, table: LiveTable, version: int | None = None) -> None:
        """Apply the commits that have come since, up to and with `version` where one is given."""
        folder = open_folder(self.path)
        names = [name for name in names_after(folder, table.version) if version is None or int(name[:20]) <= version]
        commits = folder.map(lambda name: list(folder.lines(f"{LOG}/{name}")), names)
        for name, commit in zip(names, commits, strict=True):
            if name != commit_name(table.version + 1):
                break
            for line in commit:
                table.apply(json.loads(line))
            table.version += 1

    def changes(self, after: int, up_to: int) -> list[list[dict[str, Any]]]:
        """The actions of each commit above `after`, up to and with `up_to`.

        Raises:
            FileNotFoundError: one of them is not there.
        """
        folder, names = open_folder(self.path), [commit_file(version) for version in range(after + 1, up_to + 1)]
        return folder.map(lambda name: [json.loads(line) for line in folder.lines(name)], names)

    def mark(self, version: int) -> str:
        """What tells a version from the one of that number of a table made again; empty where its commit is gone: a checkpoint
        may outlive its own."""
        try:
            return _mark(open_folder(self.path).read(commit_file(version)))
        except FileNotFoundError:
            return ""

    def last_row_change(self, known: ChangeCommit | None = None) -> ChangeCommit | None:
        """The last commit that changed rows; None where there is no table.

        A version also goes up where no row changes: a fold that only moves its positions on, OPTIMIZE (`dataChange` is false),
        VACUUM, a new property, and a MERGE that writes a file again as it was. `known`: what was the last one before. The log is
        read back to there. Where it was cleaned up before that, the newest commit is taken for one that changed rows.

        Raises:
            EndpointError: the lake's object store does not answer.
        """
        folder = open_folder(self.path)
        top: ChangeCommit | None = None
        for version in range(_newest_version(folder, known), -1, -1):
            commit = _change_commit(folder, version)
            if known is not None and version == known.version and (commit is None or commit[0] == known):
                return known
            if commit is None:
                return top
            top = top or commit[0]
            if commit[1] or version == 0:
                return commit[0]
        # The log's commits behind a checkpoint are gone, and nothing came after them.
        return top

    def commit(self, base: int, actions: Sequence[dict[str, Any]]) -> int:
        """Put the actions as the version behind `base`, which is the answer, and make its checkpoint where the table's property
        wants one.

        Raises:
            LeftToSparkError: somebody else has committed it meanwhile.
            CommitUncertainError: the store does not say.
        """
        version = base + 1
        self.put(version, actions)
        if version % int(self.properties().get("delta.checkpointInterval") or _EVERY) == 0:
            make_checkpoint(open_delta(self.path), self.path)
        return version

    def put(self, version: int, actions: Sequence[dict[str, Any]]) -> None:
        """The actions as this version, which nobody else has made. One of them has to be ours alone, as a commitInfo with an
        operation id is: an object store may answer late or not at all, and then the log tells whose commit is there.

        Raises:
            LeftToSparkError: somebody else has committed it meanwhile.
            CommitUncertainError: the store does not say.
        """
        folder, name = open_folder(self.path), commit_file(version)
        content = "".join(json.dumps(action) + "\n" for action in actions).encode()
        refuse_lost(self.path)
        if not _is_put(folder, name, content):
            raise LeftToSparkError(f"somebody else has committed version {version} of the table meanwhile")

    def create(
        self, rows: pa.Table, properties: Mapping[str, str], user_metadata: str, *, bounded: Sequence[str] | None = None
    ) -> None:
        """The table with these rows as its version 0, or nothing; `bounded` as write_file.

        Raises:
            LeftToSparkError: somebody else has made one meanwhile.
        """
        from spark.table.data_files import write_file

        files = [write_file(open_folder(self.path), rows, bounded)] if rows.num_rows else []
        self.create_of_files(rows.schema, files, properties, user_metadata)

    def create_of_files(
        self,
        schema: pa.Schema,
        files: Sequence[AddFile],
        properties: Mapping[str, str],
        user_metadata: str,
        turn: tuple[str, int] | None = None,
    ) -> None:
        """The same of files that are written already; `turn` is an application's name, and the number of its transaction.

        Raises:
            LeftToSparkError: somebody else has made one meanwhile.
        """
        import pyarrow as pa

        now = int(time.time() * 1000)
        count = sum(json.loads(file["stats"])["numRecords"] for file in files)
        leaves = [kind.value_type if pa.types.is_list(kind) else kind for kind in schema.types]
        without_zone = any(pa.types.is_timestamp(kind) and kind.tz is None for kind in leaves)
        actions: list[dict[str, Any]] = [
            commit_info("CREATE TABLE AS SELECT", user_metadata, {"numOutputRows": count}),
            {"protocol": _NO_ZONE if without_zone else _PLAIN},
            {"metaData": _metadata(schema, properties, now)},
        ]
        if turn is not None:
            actions.append({"txn": {"appId": turn[0], "version": turn[1], "lastUpdated": now}})
        actions += [{"add": file} for file in files]
        self.put(0, actions)


@cache
def table_of(path: str) -> DeltaTable:
    """The table at a path; nothing is looked at. Each process has one, which keeps what it has read."""
    return DeltaTable(path)


def commit_info(
    operation: str, user_metadata: str, metrics: Mapping[str, object], parameters: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The first action of a commit of ours; its figures as texts, as Delta has them."""
    return {
        "commitInfo": {
            "timestamp": int(time.time() * 1000),
            "operation": operation,
            "operationParameters": dict(parameters or {}),
            "operationMetrics": {name: str(figure) for name, figure in metrics.items()},
            "engineInfo": "cdc_assets",
            "userMetadata": user_metadata,
        }
    }


def _is_put(folder: LakeFolder, name: str, content: bytes) -> bool:
    """Whether the file is there with this content. The same put again is refused by one that came through, and is safe."""
    for left in reversed(range(_TRIES)):
        try:
            return folder.put_if_absent(name, content) or folder.read(name) == content
        except (EndpointError, FileNotFoundError) as error:
            if not left:
                raise CommitUncertainError(f"{folder.path}: nobody says whether {name} is written: {error}") from error
            time.sleep(_SECONDS)
    raise AssertionError("unreachable")


_PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
_NO_ZONE = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["timestampNtz"],
    "writerFeatures": ["appendOnly", "invariants", "timestampNtz"],
}


def _metadata(schema: pa.Schema, properties: Mapping[str, str], now: int) -> dict[str, Any]:
    from deltalake import Schema

    return {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": Schema.from_arrow(schema).to_json(),
        "partitionColumns": [],
        "configuration": dict(properties),
        "createdTime": now,
    }


def _moment(entry: Mapping[str, Any], times: Mapping[str, float]) -> datetime:
    if (milliseconds := entry["timestamp"]) is None:
        return datetime.fromtimestamp(times[commit_name(entry["version"])], timezone.utc)
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


def _is_one_file(checkpoint: Mapping[str, Any]) -> bool:
    return not checkpoint.get("parts") and not checkpoint.get("v2Checkpoint")


def _newest_checkpoint(folder: LakeFolder) -> int | None:
    checkpoint = last_checkpoint(folder)
    if checkpoint is None:
        return None
    if not _is_one_file(checkpoint):
        raise LeftToSparkError("the table's checkpoint is in parts")
    return int(checkpoint["version"])


def _newest_version(folder: LakeFolder, known: ChangeCommit | None) -> int:
    """The table's version; -1: there is none."""
    if is_local(folder.path) and (newest := newest_here(folder.path)) is not None:
        return newest
    after = commit_name(known.version - 1) if known is not None and known.version > 0 else ""
    names = commit_names(folder, after=after) or (commit_names(folder) if after else [])
    return int(names[-1][:20]) if names else -1


def _change_commit(folder: LakeFolder, version: int) -> tuple[ChangeCommit, bool] | None:
    """The commit, and whether it changed rows; None where it is gone."""
    info, writes = {}, False
    try:
        with closing(folder.lines(commit_file(version))) as lines:
            for line in lines:
                if line.startswith(COMMIT_INFO):
                    info = json.loads(line)["commitInfo"]
                elif not writes and line.startswith(('{"add":', '{"remove":')):
                    (file,) = json.loads(line).values()
                    writes = bool(file.get("dataChange"))
    except FileNotFoundError:
        return None
    merged = [(info.get("operationMetrics") or {}).get(name) for name in _MERGED]
    is_empty_merge = info.get("operation") == "MERGE" and all(str(count) == "0" for count in merged)
    return ChangeCommit(version, int(info.get("timestamp") or 0)), writes and not is_empty_merge


def _mark(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
