"""The GCS endpoint: fake-gcs-server over a local folder, so that objects outlive a restart.

Before it counts as healthy it must refuse a second upload with ifGenerationMatch=0 with 412: backups build on that.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from cdc_assets.stack.components.object_endpoint import PROBE_BUCKET, ObjectEndpoint
from cdc_assets.stack.errors import NotReadyError
from cdc_assets.stack.packages import GCS, package_folder

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class GcsEndpoint(ObjectEndpoint):
    """Google Cloud Storage on 127.0.0.1."""

    name = "gcs"

    @override
    def command(self) -> list[str]:
        machine = _MACHINES.get(platform.machine(), platform.machine())
        folder = package_folder(*GCS) / "vendor" / "fake-gcs-server" / "bin"
        server = [str(folder / f"fake-gcs-server-linux-{machine}"), "-scheme", "http", "-host", "127.0.0.1"]
        server += ["-port", str(self.site.ports[self.name]), "-backend", "filesystem", "-filesystem-root", str(self.data)]
        return [*server, "-external-url", self.url, "-public-host", self.address, "-log-level", "warn"]

    def _request(self, method: str, path: str, **arguments: Any) -> int:
        return self._status(method, f"{self.url}{path}", **arguments)

    @override
    def probe(self) -> None:
        if (status := self._request("GET", "/storage/v1/b?project=cdc")) != 200:
            raise NotReadyError(f"{self.url}: listing the buckets is answered with {status}")

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
