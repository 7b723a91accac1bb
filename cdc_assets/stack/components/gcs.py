"""The GCS endpoint: a server of ours over a local folder, so that objects outlive a restart (gcs_server).

It is started where a source, or the lake, names a bucket of GCS. Before it counts as healthy it must refuse a second upload with
ifGenerationMatch=0 with 412: backups build on that.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from cdc_assets.stack.components.object_endpoint import PROBE_BUCKET, ObjectEndpoint
from cdc_assets.stack.errors import NotReadyError

NAME = "gcs"
KEY_VARIABLE = "CDC_GCS_KEY"
"""By which the server is told its key."""
_KEY = "gcs_key"


class GcsEndpoint(ObjectEndpoint):
    """Google Cloud Storage on 127.0.0.1."""

    name = NAME

    @override
    def command(self) -> list[str]:
        return [sys.executable, "-m", "cdc_assets.stack.gcs_server", str(self.site.ports[self.name]), str(self.data)]

    @override
    def environment(self) -> dict[str, str]:
        key = {KEY_VARIABLE: self.site.home.private(_KEY)}
        return {**super().environment(), "PYTHONPATH": str(Path(__file__).parents[3]), "PYTHONUNBUFFERED": "1", **key}

    @property
    @override
    def url(self) -> str:
        """With the key: Google's clients send an emulator no login, and keep the path of its address."""
        return f"{super().url}/{self.site.home.private(_KEY)}"

    def _request(self, method: str, path: str, **arguments: Any) -> int:
        return self._status(method, f"{self.url}{path}", **arguments)

    @override
    def probe(self) -> None:
        if (status := self._request("GET", "/storage/v1/b?project=cdc")) != 200:
            raise NotReadyError(f"{self.address}: listing the buckets is answered with {status}")

    @override
    def settle(self) -> None:
        for bucket in (*self.site.buckets_to_make("gcs"), PROBE_BUCKET):
            if self._request("GET", f"/storage/v1/b/{bucket}") == 404:
                self._request("POST", "/storage/v1/b?project=cdc", json={"name": bucket})
        self._upload_if_absent()
        if (status := self._upload_if_absent()) != 412:
            raise NotReadyError(f"a second upload with ifGenerationMatch=0 is answered with {status} instead of 412")

    def _upload_if_absent(self) -> int:
        # Multipart, as Google's own client uploads: for plain media uploads this server ignores the condition.
        path = f"/upload/storage/v1/b/{PROBE_BUCKET}/o?uploadType=multipart&ifGenerationMatch=0"
        part = "--probe\r\nContent-Type: {}\r\n\r\n{}\r\n"
        body = part.format("application/json", '{"name": "conditional"}') + part.format("text/plain", "x") + "--probe--\r\n"
        headers = {"Content-Type": "multipart/related; boundary=probe"}
        return self._request("POST", path, content=body.encode(), headers=headers)

    @property
    @override
    def addresses(self) -> Mapping[str, str]:
        return {"STORAGE_EMULATOR_HOST": self.url}
