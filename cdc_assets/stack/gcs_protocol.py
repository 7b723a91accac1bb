"""Google's JSON and XML interface of storage, as the GCS endpoint reads and writes it.

A request is its path in parts, its conditions and its body; what is not understood is refused. Answers describe objects and
buckets as Google does, name them in pages, and carry content.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import format_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, unquote
from xml.sax.saxutils import escape

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from cdc_assets.stack.gcs_objects import CHUNK, Conditions, Draft, GcsObject, KeptObjects, RefusedError

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
        parts = tuple(unquote(segment, errors="strict") for segment in path.split("/"))
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
        document = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise RefusedError(400, "the body is no JSON object")
    return document


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
    described, content = (piece.partition(b"\r\n\r\n") for piece in (first, second))
    kinds = re.search(rb"content-type: *([^\r\n]+)", content[0], re.IGNORECASE)
    fields = dict(json_object(described[2]))
    fields.setdefault("contentType", kinds[1].decode("latin-1") if kinds else "")
    return fields, content[2]


def byte_range(asked: str, size: int) -> tuple[int, int]:
    """Where a part begins and ends, of an object of that size.

    Raises:
        RefusedError: it begins behind the end.
    """
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", asked.strip())
    if match is None or not any(match.groups()) or not size:
        return 0, size
    first, last = match.groups()
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
    async for chunk in request.stream():
        data += chunk
        if len(data) > _SMALL:
            raise RefusedError(413, f"more than {_SMALL} bytes in one request: upload it in a session")
    if request.headers.get("content-encoding") != "gzip":
        return bytes(data)
    with gzip.open(io.BytesIO(data)) as packed:
        return packed.read(_SMALL)


async def receive_into(request: Request, draft: Draft) -> None:
    """The body goes into the draft, piece by piece."""
    async for chunk in request.stream():
        draft.write(chunk)


def listing(objects: KeptObjects, call: Call, bucket: str) -> Response:
    """A page of names as the JSON interface tells it."""
    token, limit = unquote(call.query.get("pageToken", "")), int(call.query.get("maxResults") or 1000)
    items, prefixes, after = _page(objects, call.query, bucket, token, min(limit, 1000))
    answer: dict[str, Any] = {"kind": "storage#objects", "items": [object_resource(bucket, item, call.url) for item in items]}
    answer |= {"prefixes": prefixes} if prefixes else {}
    return JSONResponse(answer | ({"nextPageToken": quote(after, safe="")} if after else {}))


def xml_listing(objects: KeptObjects, call: Call, bucket: str) -> Response:
    """The same page as the XML interface tells it."""
    token = unquote(call.query.get("continuation-token", ""))
    after = token or call.query.get("start-after", "")
    items, prefixes, token = _page(objects, call.query, bucket, after, min(int(call.query.get("max-keys") or 1000), 1000))
    elements = [
        f"<Contents><Key>{escape(item.name)}</Key><LastModified>{_time(item).isoformat()}</LastModified>"
        f"<ETag>&quot;{item.md5}&quot;</ETag><Size>{item.size}</Size></Contents>"
        for item in items
    ]
    elements += [f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>" for prefix in prefixes]
    elements += [f"<NextContinuationToken>{quote(token, safe='')}</NextContinuationToken>"] if token else []
    more = f"<IsTruncated>{str(bool(token)).lower()}</IsTruncated><KeyCount>{len(items) + len(prefixes)}</KeyCount>"
    text = f"<?xml version='1.0' encoding='UTF-8'?><ListBucketResult>{more}{''.join(elements)}</ListBucketResult>"
    return Response(text, media_type="application/xml")


def content(objects: KeptObjects, call: Call, found: GcsObject) -> Response:
    """The bytes of an object, or the part of them that is asked for.

    Raises:
        RefusedError: 404 or 416.
    """
    start, end = byte_range(call.headers.get("range", ""), found.size)
    headers = {
        "content-length": str(end - start),
        "etag": f'"{found.md5}"',
        "last-modified": format_datetime(_time(found), usegmt=True),
        "x-goog-generation": str(found.generation),
        "x-goog-hash": f"crc32c={found.crc32c},md5={found.md5}",
        "x-goog-stored-content-length": str(found.size),
        "accept-ranges": "bytes",
    }
    partial = call.headers.get("range") is not None and found.size > 0
    if partial:
        headers["content-range"] = f"bytes {start}-{end - 1}/{found.size}"
    status = HTTPStatus.PARTIAL_CONTENT if partial else HTTPStatus.OK
    if call.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=found.content_type)
    content = objects.open(found)
    content.seek(start)
    return StreamingResponse(read_chunks(content, end - start), status, headers, found.content_type)


def _page(
    objects: KeptObjects, query: Mapping[str, str], bucket: str, after: str, limit: int
) -> tuple[list[GcsObject], list[str], str]:
    """Objects and common prefixes behind `after`, and the last of them where there are more."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    items: list[GcsObject] = []
    prefixes: list[str] = []
    start, last = max(prefix, query.get("startOffset", "")), ""
    if after:
        start = max(start, behind(after) if delimiter and after.endswith(delimiter) else after + "\0")
    names = objects.names(bucket, start, query.get("endOffset", ""))
    while (item := next(names, None)) is not None and item.name.startswith(prefix):
        if len(items) + len(prefixes) >= limit:
            return items, prefixes, last
        head, cut, _ = item.name[len(prefix) :].partition(delimiter) if delimiter else (item.name, "", "")
        last = prefix + head + cut if cut else item.name
        if not cut:
            items.append(item)
            continue
        prefixes.append(last)
        if query.get("includeTrailingDelimiter") == "true" and item.name == last:
            items.append(item)
        names = objects.names(bucket, behind(last), query.get("endOffset", ""))
    return items, prefixes, ""


def refusal(status: int, reason: str) -> Response:
    """An error as Google tells it."""
    return JSONResponse({"error": {"code": status, "message": reason, "errors": [{"message": reason}]}}, status)


def incomplete(size: int) -> Response:
    """How many bytes of a session have arrived."""
    return Response(status_code=308, headers={"range": f"bytes=0-{size - 1}"} if size else {})


def bucket_resource(name: str, url: str) -> dict[str, Any]:
    """A bucket as the JSON interface tells it."""
    about = {"projectNumber": "0", "location": "US", "storageClass": "STANDARD", "metageneration": "1"}
    return {"kind": "storage#bucket", "id": name, "name": name, "selfLink": f"{url}/storage/v1/b/{name}", **about}


def object_resource(bucket: str, found: GcsObject, url: str) -> dict[str, Any]:
    """An object as the JSON interface tells it."""
    at, path = _time(found).isoformat().replace("+00:00", "Z"), f"{bucket}/o/{quote(found.name, safe='')}"
    return {
        "kind": "storage#object",
        "id": f"{bucket}/{found.name}/{found.generation}",
        "selfLink": f"{url}/storage/v1/b/{path}",
        "mediaLink": f"{url}/download/storage/v1/b/{path}?alt=media",
        "name": found.name,
        "bucket": bucket,
        "generation": str(found.generation),
        "metageneration": "1",
        "contentType": found.content_type,
        "storageClass": "STANDARD",
        "size": str(found.size),
        "md5Hash": found.md5,
        "crc32c": found.crc32c,
        "etag": found.md5,
        "timeCreated": at,
        "updated": at,
        "metadata": json.loads(found.metadata),
    }


def _time(found: GcsObject) -> datetime:
    return datetime.fromtimestamp(found.generation / 1e6, timezone.utc)


def behind(prefix: str) -> str:
    """The first name that does not begin with it."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


async def read_chunks(content: Any, size: int) -> AsyncIterator[bytes]:
    """So many bytes, piece by piece; the file is closed at the end."""
    with content:
        while size and (data := await run_in_threadpool(content.read, min(size, CHUNK))):
            size -= len(data)
            yield data
