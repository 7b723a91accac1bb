"""The GCS endpoint of the stack: what Google's client, PyArrow, delta-rs and the connector of Hadoop ask of Google Cloud Storage.

Executed as `python -m cdc_assets.stack.gcs_server PORT FOLDER`; the variable CDC_GCS_KEY has the key. Every path begins with it:
Google's clients send an emulator no login, and keep the path of the address that they are given. The connector of Hadoop forgets
that path in uploads, and sends the key by a header. Refused are another host's name, a page of another origin, and whoever does
not know the key. Nothing answers with CORS headers, and nothing is configured by a request. A bucket's or object's name is a
value, never a path (gcs_objects). What of a request is not understood is refused.

https://cloud.google.com/storage/docs/json_api/v1, and its XML interface for reading: https://cloud.google.com/storage/docs/xml-api
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import secrets
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from email import message_from_bytes
from email.message import Message
from email.utils import format_datetime
from http import HTTPStatus
from pathlib import Path
from secrets import compare_digest
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from cdc_assets.stack.components.object_stores import KEY_VARIABLE
from cdc_assets.stack.gcs_objects import CHUNK, Conditions, Draft, GcsObject, KeptObjects, RefusedError
from cdc_assets.stack.loopback import foreign
from spark.table.lake_location import KEY_HEADER

_HEADER = KEY_HEADER.lower()
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
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
    """The request at this path, whose parts are not decoded yet. Raises RefusedError: a name is no UTF-8."""
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
    """The name that an upload gives its object. Raises RefusedError: there is none, or it is no name."""
    return check_name(str(fields.get("name") or call.query.get("name", "")))


def check_name(name: str) -> str:
    """As Google's rules have it, and no part that is a way up."""
    if not name or len(name.encode()) > 1024 or re.search(r"[\r\n\0]", name) or {".", ".."} & {*name.split("/")}:
        raise RefusedError(400, f"Invalid object name: {name[:100]!r}")
    return name


def json_object(body: bytes) -> Mapping[str, Any]:
    """What a body says. Raises RefusedError: it is no JSON object."""
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
    """Where a part begins and ends, of an object of that size. Raises RefusedError: it begins behind the end."""
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
    Raises RefusedError: they are too many."""
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
    """The bytes of an object, or the part of them that is asked for. Raises RefusedError: 404 or 416."""
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
        start = max(start, end_of_prefix(after) if delimiter and after.endswith(delimiter) else after + "\0")
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
        names = objects.names(bucket, end_of_prefix(last), query.get("endOffset", ""))
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


def end_of_prefix(prefix: str) -> str:
    """The first name that does not begin with it."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


async def read_chunks(content: Any, size: int) -> AsyncIterator[bytes]:
    """So many bytes, piece by piece; the file is closed at the end."""
    with content:
        while size and (data := await run_in_threadpool(content.read, min(size, CHUNK))):
            size -= len(data)
            yield data


@dataclass
class Session:
    """An upload that comes in pieces."""

    bucket: str
    name: str
    conditions: Conditions
    fields: Mapping[str, Any]
    draft: Draft


class GcsServer:
    """An ASGI application over one folder."""

    def __init__(self, objects: KeptObjects, key: str) -> None:
        self._objects, self._key = objects, key
        self._sessions: dict[str, Session] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except RefusedError as refused:
            answer = refusal(refused.status, str(refused))
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if refused := foreign(request.headers):
            return PlainTextResponse(refused[1], refused[0])
        path = request.scope["raw_path"].decode("ascii").removeprefix("/")
        first, _, rest = path.partition("/")
        if not self._is_key(first):
            if not self._is_key(request.headers.get(_HEADER, "")):
                return PlainTextResponse("The path of the address has a key: ./cdc env\n", HTTPStatus.UNAUTHORIZED)
            rest = path
        url = f"http://{request.headers['host']}/{self._key}"
        query = request.scope["query_string"].decode("ascii")
        call = read_call(request.method, rest, query, request.headers, url)
        if call.parts[:1] == ("upload",):
            return await self._upload(replace(call, parts=call.parts[1:]), request)
        if call.parts[:1] == ("batch",):
            return await self._batch(call, await whole_body(request))
        body = b"" if request.method in ("GET", "HEAD", "DELETE") else await whole_body(request)
        return await run_in_threadpool(self._do, call, body)

    def _is_key(self, text: str) -> bool:
        return compare_digest(text.encode(), self._key.encode())

    def _do(self, call: Call, body: bytes) -> Response:
        match (call.method, call.parts):
            case ("GET", ("storage", "v1", "b")):
                items = [bucket_resource(name, call.url) for name in self._objects.buckets()]
                return JSONResponse({"kind": "storage#buckets", "items": items})
            case ("POST", ("storage", "v1", "b")):
                name = str(json_object(body).get("name", ""))
                if not _BUCKET.fullmatch(name):
                    raise RefusedError(400, f"Invalid bucket name: {name!r}")
                self._objects.create_bucket(name)
                return JSONResponse(bucket_resource(name, call.url))
            case ("GET", ("storage", "v1", "b", bucket)):
                self._objects.check_bucket(bucket)
                return JSONResponse(bucket_resource(bucket, call.url))
            case ("GET", ("storage", "v1", "b", bucket, "o")):
                self._objects.check_bucket(bucket)
                return listing(self._objects, call, bucket)
            case _ if call.parts[:2] == ("storage", "v1") or call.parts[:3] == ("download", "storage", "v1"):
                return self._on_object(call, body)
            case (("GET" | "HEAD"), (bucket,)):
                self._objects.check_bucket(bucket)
                return xml_listing(self._objects, call, bucket)
            case (("GET" | "HEAD"), (bucket, *names)):
                return content(self._objects, call, self._objects.find(bucket, "/".join(names)))
        raise unknown(call)

    def _on_object(self, call: Call, body: bytes) -> Response:
        match (call.method, call.parts):
            case (("GET" | "DELETE"), (*_, "v1", "b", bucket, "o", name)):
                return self._object(call, bucket, name)
            case ("POST", ("storage", "v1", "b", bucket, "o", name, "rewriteTo" | "copyTo" as verb, "b", other, "o", new)):
                kept = self._copy(call, (bucket, name), (other, new), body)
                sizes = {"totalBytesRewritten": str(kept.size), "objectSize": str(kept.size)}
                resource = object_resource(other, kept, call.url)
                answer = {"kind": "storage#rewriteResponse", **sizes, "done": True, "resource": resource}
                return JSONResponse(answer if verb == "rewriteTo" else resource)
            case ("POST", ("storage", "v1", "b", bucket, "o", name, "moveTo", "o", new)):
                kept = self._copy(call, (bucket, name), (bucket, new), b"")
                self._objects.delete(bucket, name, Conditions())
                return JSONResponse(object_resource(bucket, kept, call.url))
            case ("POST", ("storage", "v1", "b", bucket, "o", name, "compose")):
                return JSONResponse(object_resource(bucket, self._compose(call, bucket, name, body), call.url))
        raise unknown(call)

    def _object(self, call: Call, bucket: str, name: str) -> Response:
        if call.method == "DELETE":
            self._objects.delete(bucket, name, call.conditions)
            return Response(status_code=HTTPStatus.NO_CONTENT)
        stored = self._objects.find(bucket, name, call.conditions)
        if call.query.get("alt") == "media":
            return content(self._objects, call, stored)
        return JSONResponse(object_resource(bucket, stored, call.url))

    def _copy(self, call: Call, source: tuple[str, str], target: tuple[str, str], body: bytes) -> GcsObject:
        original = self._objects.find(*source, call.source_conditions)
        fields = {"contentType": original.content_type, "metadata": json.loads(original.metadata), **json_object(body)}
        return self._join([original], target, call.conditions, fields)

    def _compose(self, call: Call, bucket: str, name: str, body: bytes) -> GcsObject:
        description = json_object(body)
        sources = [self._objects.find(bucket, str(source["name"])) for source in description["sourceObjects"]]
        return self._join(sources, (bucket, name), call.conditions, description.get("destination", {}))

    def _join(self, sources: list[GcsObject], target: tuple[str, str], when: Conditions, fields: Mapping[str, Any]) -> GcsObject:
        draft = self._objects.draft()
        for source in sources:
            with self._objects.open(source) as content:
                while data := content.read(CHUNK):
                    draft.write(data)
        return self._keep(draft, *target, when, fields)

    def _keep(self, draft: Draft, bucket: str, name: str, when: Conditions, fields: Mapping[str, Any]) -> GcsObject:
        try:
            check_name(name)
            for field, digest in zip(("md5Hash", "crc32c"), draft.digests, strict=True):
                if fields.get(field) not in (None, digest):
                    raise RefusedError(400, f"Provided {field} {fields[field]!r} doesn't match calculated {field} {digest!r}.")
        except RefusedError:
            draft.discard()
            raise
        kind, metadata = str(fields.get("contentType") or "application/octet-stream"), fields.get("metadata") or {}
        return self._objects.keep(draft, bucket, name, conditions=when, content_type=kind, metadata=metadata)

    async def _upload(self, call: Call, request: Request) -> Response:
        if upload_id := call.query.get("upload_id"):
            return await self._go_on(upload_id, call, request)
        match call.parts:
            case ("storage", "v1", "b", bucket, "o") if call.method == "POST":
                await run_in_threadpool(self._objects.check_bucket, bucket)
            case _:
                raise unknown(call)
        kind = call.query.get("uploadType", "media")
        if kind == "resumable":
            return self._begin(call, bucket, json_object(await whole_body(request)))
        if kind == "multipart":
            fields, content = two_parts(request.headers.get("content-type", ""), await whole_body(request))
            draft = self._objects.draft()
            draft.write(content)
        else:
            fields, draft = {"contentType": request.headers.get("content-type", "")}, self._objects.draft()
            await receive_into(request, draft)
        name = object_name(fields, call)
        kept = await run_in_threadpool(self._keep, draft, bucket, name, call.conditions, fields)
        return JSONResponse(object_resource(bucket, kept, call.url))

    def _begin(self, call: Call, bucket: str, fields: Mapping[str, Any]) -> Response:
        kind = call.headers.get("x-upload-content-type", "")
        fields, name = {"contentType": kind, **fields}, object_name(fields, call)
        upload_id = secrets.token_urlsafe(24)
        self._sessions[upload_id] = Session(bucket, name, call.conditions, fields, self._objects.draft())
        location = f"{call.url}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={upload_id}"
        return Response(status_code=HTTPStatus.OK, headers={"location": location, "x-guploader-uploadid": upload_id})

    async def _go_on(self, upload_id: str, call: Call, request: Request) -> Response:
        session = self._sessions.get(upload_id)
        if session is None:
            raise RefusedError(404, "There is no such upload")
        if call.method == "DELETE":
            self._sessions.pop(upload_id).draft.discard()
            return Response(status_code=499)
        content_range = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", call.headers.get("content-range", "bytes 0-0/*"))
        if content_range is None:
            raise RefusedError(400, f"Content-Range: {call.headers.get('content-range')}")
        first, _, total = content_range.groups()
        if "content-range" not in call.headers or first is not None:
            if int(first or 0) != session.draft.size:
                return incomplete(session.draft.size)
            await receive_into(request, session.draft)
        whole = "content-range" not in call.headers or (total != "*" and int(total) == session.draft.size)
        if not whole:
            return incomplete(session.draft.size)
        del self._sessions[upload_id]
        kept = await run_in_threadpool(
            self._keep, session.draft, session.bucket, session.name, session.conditions, session.fields
        )
        return JSONResponse(object_resource(session.bucket, kept, call.url))

    async def _batch(self, call: Call, body: bytes) -> Response:
        """Requests in one: each is answered as if it had come alone."""
        batch = message_from_bytes(b"content-type: " + call.headers.get("content-type", "").encode() + b"\r\n\r\n" + body)
        boundary, answers = secrets.token_hex(8), io.BytesIO()
        entries = batch.get_payload() if batch.is_multipart() else ()
        for entry in (entry for entry in entries if isinstance(entry, Message)):
            request: Any = entry.get_payload(decode=True)
            line, _, rest = request.lstrip().partition(b"\r\n")
            method, target, *_ = line.decode("ascii").split(" ")
            path, query = urlsplit(target).path, urlsplit(target).query
            within = path.removeprefix("/").removeprefix(f"{self._key}/")
            sent = rest.partition(b"\r\n\r\n")[2]
            try:
                answer = await run_in_threadpool(self._do, read_call(method, within, query, {}, call.url), sent)
            except RefusedError as refused:
                answer = refusal(refused.status, str(refused))
            content_id = entry.get("Content-ID", "<x>").removeprefix("<")
            head = f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <response-{content_id}\r\n\r\n"
            head += f"HTTP/1.1 {answer.status_code} {HTTPStatus(answer.status_code).phrase}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(answer.body)}\r\n\r\n"
            answers.write(head.encode() + bytes(answer.body) + b"\r\n")
        answers.write(f"--{boundary}--\r\n".encode())
        return Response(answers.getvalue(), media_type=f"multipart/mixed; boundary={boundary}")


def main() -> None:
    """Serve the folder until SIGTERM."""
    import uvicorn

    port, folder = sys.argv[1:]
    os.umask(0o077)
    server = GcsServer(KeptObjects(Path(folder)), os.environ.pop(KEY_VARIABLE))
    uvicorn.run(server, host="127.0.0.1", port=int(port), log_level="warning", access_log=False, lifespan="off", ws="none")


if __name__ == "__main__":
    main()
