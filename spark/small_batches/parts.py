"""A batch in parts: what each of several tasks reads, and what it tells of the file that it has written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from spark.delta.data_files import AddFile
from spark.small_batches.groups import Group, Last
from spark.specs import TopicRange


@dataclass(frozen=True)
class BatchPart:
    """A file that no commit names yet (None: there were no records), and its groups; `whole`: the batch that it is a part of."""

    whole: str
    file: AddFile | None = None
    groups: Sequence[Group] = field(default_factory=tuple)

    def to_json(self) -> str:
        """For the client, and the task that commits."""
        return json.dumps({"whole": self.whole, "file": self.file, "groups": self.groups})

    @classmethod
    def from_json(cls, text: str) -> BatchPart:
        """Read back what to_json wrote."""
        data = json.loads(text)
        told = [Group(*values) for values in data["groups"]]
        groups = tuple(group._replace(last=None if group.last is None else Last(*group.last)) for group in told)
        return cls(data["whole"], data["file"], groups)


def identify(topics: Sequence[TopicRange]) -> str:
    """What is to be read, as text: the same as long as nobody has appended anything of these topics."""
    told = [(t.topic, t.topic_id, t.epoch, sorted(t.ranges.items())) for t in topics]
    return json.dumps(sorted(told))


def divide(topics: Sequence[TopicRange], parts: int) -> list[list[TopicRange]]:
    """Parts of about as many offsets each, in their order; fewer where there is less to read."""
    total = sum(end - start for topic in topics for start, end in topic.ranges.values())
    size, found, room = max(1, -(-total // parts)), list[list[TopicRange]](), 0
    for topic in topics:
        for partition, (start, end) in topic.ranges.items():
            for first, last in _cuts(start, end, room, size):
                if room == 0:
                    found.append([])
                    room = size
                room -= last - first
                found[-1].append(replace(topic, ranges={partition: (first, last)}))
    return found


def _cuts(start: int, end: int, room: int, size: int) -> Iterator[tuple[int, int]]:
    """A range in pieces: the first fills the part that is open, each other is at most a part."""
    at, step = start, room or size
    while at < end:
        yield at, min(end, at + step)
        at, step = at + step, size
