"""Requests to the GCS endpoint: their path in parts, their conditions, their bodies. What is not understood is refused."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.requests import Request

from cdc_assets.stack.gcs_objects import Conditions, Draft, RefusedError

_SMALL = 64 << 20
"""Bytes of a request whose parts are looked at in memory: an upload in parts, or a batch. Larger ones come in sessions."""


@dataclass(frozen=True)
class Call:
    """A request below the key: its path in decoded parts, of which an object's name is one, and how the client reaches us."""

    method: str
    parts: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    url: str

    @property
    def conditions(self) -> Conditions:
        """The generations that it asks for."""
        return Conditions(self._number("ifGenerationMatch"), self._number("ifGenerationNotMatch"))

    @property
    def source_conditions(self) -> Conditions:
        """The same, of the object that is copied."""
        return Conditions(self._number("ifSourceGenerationMatch"), self._number("ifSourceGenerationNotMatch"))

    def _number(self, name: str) -> int | None:
        text = self.query.get(name)
        if text is not None and not text.isdecimal():
            raise RefusedError(400, f"{name}={text} is no generation")
        return None if text is None else int(text)


def read_call(method: str, path: str, query: str, headers: Mapping[str, str], url: str) -> Call:
    """The request at this path, whose parts are not decoded yet.

    Raises:
        RefusedError: a name is no UTF-8.
    """
    try:
        parts = tuple(unquote(part, errors="strict") for part in path.split("/"))
    except UnicodeDecodeError:
        raise RefusedError(400, "a name that is no UTF-8") from None
    while len(parts) > 1 and parts[-1] == "":
        parts = parts[:-1]
    return Call(method, parts, dict(parse_qsl(query, keep_blank_values=True)), headers, url)


def unknown(call: Call) -> RefusedError:
    """What this endpoint is not asked for by any client of ours."""
    return RefusedError(400, f"{call.method} {'/'.join(call.parts)[:200]}: this endpoint does not know it")


def object_name(fields: Mapping[str, Any], call: Call) -> str:
    """The name that an upload gives its object.

    Raises:
        RefusedError: there is none, or it is no name.
    """
    return check_name(str(fields.get("name") or call.query.get("name", "")))


def check_name(name: str) -> str:
    """As Google's rules have it, and no part that is a way up."""
    if not name or len(name.encode()) > 1024 or re.search(r"[\r\n\0]", name) or {".", ".."} & {*name.split("/")}:
        raise RefusedError(400, f"Invalid object name: {name[:100]!r}")
    return name


def json_object(body: bytes) -> Mapping[str, Any]:
    """What a body says.

    Raises:
        RefusedError: it is no JSON object.
    """
    try:
        found = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RefusedError(400, "the body is no JSON object")
    return found


def two_parts(kind: str, body: bytes) -> tuple[Mapping[str, Any], bytes]:
    """An upload in parts: what is said of the object, and its content, whose bytes are left as they are."""
    boundary = re.search(r'boundary="?([^";]+)"?', kind)
    if boundary is None:
        raise RefusedError(400, "an upload in parts names its boundary")
    mark = b"--" + boundary[1].encode()
    pieces = (b"\r\n" + body).split(b"\r\n" + mark, 3)
    if len(pieces) < 3:
        raise RefusedError(400, "an upload in parts has two of them")
    _, first, second, *_ = pieces
    described, content = (part.partition(b"\r\n\r\n") for part in (first, second))
    kinds = re.search(rb"content-type: *([^\r\n]+)", content[0], re.IGNORECASE)
    fields = dict(json_object(described[2]))
    fields.setdefault("contentType", kinds[1].decode("latin-1") if kinds else "")
    return fields, content[2]


def byte_range(asked: str, size: int) -> tuple[int, int]:
    """Where a part begins and ends, of an object of that size.

    Raises:
        RefusedError: it begins behind the end.
    """
    told = re.fullmatch(r"bytes=(\d*)-(\d*)", asked.strip())
    if told is None or not any(told.groups()) or not size:
        return 0, size
    first, last = told.groups()
    if not first:
        return max(0, size - int(last)), size
    if int(first) >= size:
        raise RefusedError(416, f"The requested range cannot be satisfied: {asked}")
    return int(first), min(size, int(last) + 1 if last else size)


async def whole_body(request: Request) -> bytes:
    """All bytes of a request, unpacked.

    Raises:
        RefusedError: they are too many.
    """
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > _SMALL:
            raise RefusedError(413, f"more than {_SMALL} bytes in one request: upload it in a session")
    if request.headers.get("content-encoding") != "gzip":
        return bytes(data)
    with gzip.open(io.BytesIO(data)) as packed:
        return packed.read(_SMALL)


async def receive_into(request: Request, draft: Draft) -> None:
    """The body goes into the draft, piece by piece."""
    async for part in request.stream():
        draft.write(part)
