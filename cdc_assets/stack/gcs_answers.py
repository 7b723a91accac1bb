"""What the GCS endpoint answers: objects and buckets as Google describes them, pages of names, and content."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timezone
from email.utils import format_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from cdc_assets.stack.gcs_objects import CHUNK, GcsObject, KeptObjects
from cdc_assets.stack.gcs_requests import Call, byte_range


def listing(objects: KeptObjects, call: Call, bucket: str) -> Response:
    """A page of names as the JSON interface tells it."""
    token, limit = unquote(call.query.get("pageToken", "")), int(call.query.get("maxResults") or 1000)
    items, prefixes, after = _page(objects, call.query, bucket, token, min(limit, 1000))
    told: dict[str, Any] = {"kind": "storage#objects", "items": [object_resource(bucket, each, call.url) for each in items]}
    told |= {"prefixes": prefixes} if prefixes else {}
    return JSONResponse(told | ({"nextPageToken": quote(after, safe="")} if after else {}))


def xml_listing(objects: KeptObjects, call: Call, bucket: str) -> Response:
    """The same page as the XML interface tells it."""
    token = unquote(call.query.get("continuation-token", ""))
    after = token or call.query.get("start-after", "")
    items, prefixes, token = _page(objects, call.query, bucket, after, min(int(call.query.get("max-keys") or 1000), 1000))
    found = [
        f"<Contents><Key>{escape(each.name)}</Key><LastModified>{_time(each).isoformat()}</LastModified>"
        f"<ETag>&quot;{each.md5}&quot;</ETag><Size>{each.size}</Size></Contents>"
        for each in items
    ]
    found += [f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in prefixes]
    found += [f"<NextContinuationToken>{quote(token, safe='')}</NextContinuationToken>"] if token else []
    more = f"<IsTruncated>{str(bool(token)).lower()}</IsTruncated><KeyCount>{len(items) + len(prefixes)}</KeyCount>"
    text = f"<?xml version='1.0' encoding='UTF-8'?><ListBucketResult>{more}{''.join(found)}</ListBucketResult>"
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
    while (found := next(names, None)) is not None and found.name.startswith(prefix):
        if len(items) + len(prefixes) >= limit:
            return items, prefixes, last
        head, cut, _ = found.name[len(prefix) :].partition(delimiter) if delimiter else (found.name, "", "")
        last = prefix + head + cut if cut else found.name
        if not cut:
            items.append(found)
            continue
        prefixes.append(last)
        if query.get("includeTrailingDelimiter") == "true" and found.name == last:
            items.append(found)
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
