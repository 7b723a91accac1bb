"""The way to a Spark Connect server that asks for a token.

PySpark's own client wants TLS as soon as there is a token, but for the host `localhost`. That name may stand for two
addresses, and at the one where our server does not listen another user's program may, which would be given the token.
"""

from __future__ import annotations

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder
from typing_extensions import override

_HERE = ("localhost", "127.0.0.1")


class TokenChannel(DefaultChannelBuilder):
    """As PySpark's, but a token goes over the loopback to 127.0.0.1 alone. Elsewhere it goes over TLS alone."""

    @override
    def toChannel(self) -> grpc.Channel:
        if self.token is None or self.use_ssl or self.host not in _HERE:
            return super().toChannel()
        token = grpc.access_token_call_credentials(self.token)
        credentials = grpc.composite_channel_credentials(grpc.local_channel_credentials(), token)
        return self._secure_channel(f"127.0.0.1:{self.endpoint.rpartition(':')[2]}", credentials)
