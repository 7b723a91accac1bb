"""The S3 endpoint: s3proxy over a local folder, so that objects outlive a restart.

Before it counts as healthy it must refuse a second conditional PUT with 412: backups build on that.
"""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from cdc_assets.stack.components.java_files import write_properties
from cdc_assets.stack.components.object_endpoint import PROBE_BUCKET, ObjectEndpoint
from cdc_assets.stack.errors import NotReadyError
from cdc_assets.stack.home import write_private
from cdc_assets.stack.java import java_command

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
        """A signed request's status. By hand: a boto3 client would load 30 MB of service models into the supervisor."""
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
