"""The object stores on 127.0.0.1, each over a local folder, so that objects outlive a restart.

S3 is s3proxy's, GCS a server of ours (gcs_server), started where a source or the lake names a bucket there. Before one
counts as healthy it must refuse a second conditional upload with 412: backups build on that.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from cdc_assets.stack.component import Component
from cdc_assets.stack.components.java_process import write_properties
from cdc_assets.stack.home import private_folder, write_private
from cdc_assets.stack.runtimes import java_command
from cdc_assets.stack.stack_errors import NotReadyError

if TYPE_CHECKING:
    import httpx

PROBE_BUCKET = "cdc-probe"


class ObjectEndpoint(Component):
    """Objects lie in a local folder, so that they outlive a restart."""

    @override
    def prepare(self) -> None:
        private_folder(self.run)
        private_folder(self.data)

    @cached_property
    def _http(self) -> httpx.Client:
        import httpx

        return httpx.Client(timeout=self.answer_within, trust_env=False)

    def _status(self, method: str, url: str, **arguments: Any) -> int:
        """The status that a request is answered with. Raises NotReadyError: it is not answered."""
        import httpx

        try:
            return self._http.request(method, url, timeout=self.answer_within, **arguments).status_code
        except httpx.HTTPError as error:
            raise NotReadyError(f"{self.address}: {error}") from error


_REGION = "us-east-1"
_ACCESS_KEY = "cdc-assets"
_LOGBACK = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{yyyy-MM-dd'T'HH:mm:ss.SSSX, UTC} %-5level %logger{1}: %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="out"/></root>
</configuration>
"""


class S3Endpoint(ObjectEndpoint):
    """The stack's S3, on 127.0.0.1."""

    name = "s3"

    @override
    def prepare(self) -> None:
        super().prepare()
        (self.run / "logback.xml").write_text(_LOGBACK, encoding="utf-8")
        configuration = self.run / "s3proxy.properties"
        write_private(configuration, "")
        secret = self.site.home.private("s3_secret_key")
        write_properties(
            configuration,
            {
                "s3proxy.endpoint": self.url,
                "s3proxy.authorization": "aws-v2-or-v4",
                "s3proxy.identity": _ACCESS_KEY,
                "s3proxy.credential": secret,
                "jclouds.provider": "filesystem-nio2",
                "jclouds.identity": _ACCESS_KEY,
                "jclouds.credential": secret,
                "jclouds.filesystem.basedir": str(self.data),
            },
        )

    @override
    def command(self) -> list[str]:
        java = java_command(
            "org.gaul.s3proxy.Main",
            class_path=self.site.jars("s3proxy"),
            heap_mb=96,
            options=[f"-Dlogback.configurationFile={self.run / 'logback.xml'}"],
            arguments_file=self.run / "java.args",
        )
        return [*java, "--properties", str(self.run / "s3proxy.properties")]

    def _request(self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None) -> int:
        # Signed by hand: a boto3 client would load 30 MB of service models into the supervisor.
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        request = AWSRequest(method, f"{self.url}/{path}", data=body, headers=dict(headers or {}))
        credentials = Credentials(_ACCESS_KEY, self.site.home.private("s3_secret_key"))
        S3SigV4Auth(credentials, "s3", _REGION).add_auth(request)
        return self._status(method, request.url, content=body, headers=dict(request.headers.items()))

    @override
    def probe(self) -> None:
        if (status := self._request("GET", "")) != 200:
            raise NotReadyError(f"{self.url}: listing the buckets is answered with {status}")

    @override
    def settle(self) -> None:
        for bucket in (*self.site.buckets_to_make("s3"), PROBE_BUCKET):
            if self._request("HEAD", bucket) == 404 and (status := self._request("PUT", bucket)) not in (200, 409):
                raise NotReadyError(f"creating the bucket {bucket} is answered with {status}")
        key, condition = f"{PROBE_BUCKET}/conditional", {"If-None-Match": "*"}
        self._request("PUT", key, body=b"x", headers=condition)
        if (status := self._request("PUT", key, body=b"x", headers=condition)) != 412:
            raise NotReadyError(f"a second PUT with If-None-Match: * is answered with {status} instead of 412")

    @property
    @override
    def addresses(self) -> Mapping[str, str]:
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": _ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": self.site.home.private("s3_secret_key"),
            "AWS_DEFAULT_REGION": _REGION,
        }


GCS = "gcs"
KEY_VARIABLE = "CDC_GCS_KEY"
"""By which the server is told its key."""
_KEY = "gcs_key"


class GcsEndpoint(ObjectEndpoint):
    """Google Cloud Storage on 127.0.0.1."""

    name = GCS

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
        template = "--probe\r\nContent-Type: {}\r\n\r\n{}\r\n"
        body = (
            template.format("application/json", '{"name": "conditional"}') + template.format("text/plain", "x") + "--probe--\r\n"
        )
        headers = {"Content-Type": "multipart/related; boundary=probe"}
        return self._request("POST", path, content=body.encode(), headers=headers)

    @property
    @override
    def addresses(self) -> Mapping[str, str]:
        return {"STORAGE_EMULATOR_HOST": self.url}
