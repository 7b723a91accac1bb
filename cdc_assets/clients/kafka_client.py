"""librdkafka clients of one cluster: with its login, and with an end as soon as that is refused.

librdkafka tries again and again where a broker refuses a login, tells it only to `error_cb`, and lets the call run into its
deadline. So every wait looks at what was told.
"""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cdc_assets.registry.errors import ServiceError
from spark.errors import JobRefusedError
from spark.events.kafka_login import librdkafka, read_login

_LOOK_SECONDS = 0.25
# Metadata of one topic, that it need not be of all: this one is Kafka's own, and asking makes none.
OWN_TOPIC = "__consumer_offsets"
_READER = {
    "group.id": "cdc_assets-reader",  # never committed: positions live in the Delta log
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",  # a range that is gone is an error, never a silent restart
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 50,
}
_WAITED = ("_TIMED_OUT", "_TRANSPORT", "REQUEST_TIMED_OUT")


class ClientMaker:
    """Makes the clients, and remembers what they were told: a place and a path, no secret."""

    def __init__(self, bootstrap: str, login: str) -> None:
        self.bootstrap, self.login = bootstrap, login
        self._told = self._refused = ""
        self._admin_client: Any = None
        self._idle_readers: list[Any] = []
        self._making_admin = threading.Lock()

    def admin(self) -> Any:
        """The one AdminClient; another once its login was refused."""
        from confluent_kafka.admin import AdminClient

        with self._making_admin:  # tables are worked in threads: a second client would be destroyed while in use
            if self._admin_client is not None:
                self._admin_client.poll(0)  # what was told of an outage that is over
            if self._admin_client is None or self._refused:
                self._admin_client = self.make(AdminClient)
            return self._admin_client

    def reader(self) -> Any:
        """A new consumer of committed records."""
        from confluent_kafka import Consumer

        return self.make(Consumer, **_READER)

    @contextmanager
    def lend_reader(self) -> Iterator[Any]:
        """A consumer, unassigned and kept for the next one when it is given back: a new one costs some 0.5 s."""
        try:
            consumer = self._idle_readers.pop()
        except IndexError:
            consumer = self.reader()
        try:
            yield consumer
        finally:
            consumer.unassign()
            if not self.refused:
                self._idle_readers.append(consumer)

    def make(self, kind: Callable[[dict[str, Any]], Any], **own: Any) -> Any:
        """A client; the file is read each time, so that a renewed password needs no restart.
        Raises ServiceError: the file cannot be used."""
        from confluent_kafka import KafkaException

        self._told = self._refused = ""
        try:
            login = librdkafka(read_login(self.login)) if self.login else {}
            return kind({"bootstrap.servers": self.bootstrap, "log_level": 0, "error_cb": self._tell, **own, **login})
        except JobRefusedError as error:
            raise ServiceError(f"Kafka at {self.bootstrap}: {error}; then ./cdc preflight") from None
        except KafkaException as error:
            cluster = f"Kafka at {self.bootstrap}: {self.login}" if self.login else f"Kafka at {self.bootstrap}"
            raise ServiceError(f"{cluster}: {error.args[0].str()}") from None

    def answer(self, future: concurrent.futures.Future[Any]) -> Any:
        """What the cluster answers an admin. Raises ServiceError: it refuses the login. KafkaException: as the call raises it."""
        while True:
            try:
                return future.result(_LOOK_SECONDS)
            except concurrent.futures.TimeoutError:
                self._admin_client.poll(0)
                self.refuse()

    def metadata(self, seconds: float) -> Any:
        """What a broker knows of its cluster: `cluster_id`, `brokers`, `controller_id`.

        Not by DescribeCluster: a broker that has just started may know of no brokers, and librdkafka 2.16.0 ends the whole
        process there (rdkafka_admin.c, rd_kafka_admin_response_parse: Assertion `rko_result' failed).

        Raises ServiceError: it refuses the login, or knows of no broker in all that time; KafkaException: as the call raises
        it.
        """
        from confluent_kafka import KafkaException

        until, patience = time.monotonic() + seconds, 1.0
        while True:
            admin = self.admin()
            try:
                metadata = admin.list_topics(OWN_TOPIC, timeout=patience)
                if metadata.brokers:
                    return metadata
                if time.monotonic() > until:
                    raise ServiceError(
                        f"Kafka at {self.bootstrap} knows of no broker, itself neither: does it find its controllers?"
                    )
            except KafkaException as error:
                admin.poll(0)
                self.refuse()
                if not (self.is_timeout(error.args[0]) or error.args[0].name() == "_PARTIAL") or time.monotonic() > until:
                    raise
            admin.poll(_LOOK_SECONDS)
            patience = max(1.0, min(2 * patience, until - time.monotonic()))

    def refuse(self) -> None:
        """Ends a wait for what will not come. Raises ServiceError: the login was refused."""
        if not self._refused:
            return
        if not self.login:
            raise ServiceError(
                f"Kafka at {self.bootstrap} refuses clients without a login: {self._refused}; name a client.properties by "
                "CDC_CORE_LOGIN or CDC_LAKE_LOGIN (docs/how-to/kafka-login.md), then ./cdc preflight"
            )
        refusal = f"Kafka at {self.bootstrap} refuses the login of {self.login}"
        raise ServiceError(f"{refusal}: {self._refused}; correct that file, then ./cdc preflight")

    @property
    def refused(self) -> bool:
        """Whether the clients of now are of no use any more."""
        return bool(self._refused)

    @staticmethod
    def is_timeout(error: Any) -> bool:
        """Whether a call ended for want of an answer."""
        return error.name() in _WAITED

    def error(self, place: str, error: Any) -> ServiceError:
        """A call's own reason at a place, with what its client was told: a deadline alone says nothing."""
        text = error.str()
        if self.is_timeout(error) and self._told:
            text += f" ({self._told})"
        if self.is_timeout(error) and not self.login:
            text += "; is it there, or does it ask for a login (CDC_CORE_LOGIN, CDC_LAKE_LOGIN: docs/how-to/kafka-login.md)?"
        if error.name().endswith("_AUTHORIZATION_FAILED"):
            text += "; grant what docs/how-to/kafka-login.md says"
        return ServiceError(f"{place}: {text}")

    def _tell(self, error: Any) -> None:
        text = error.str()
        # A broker that goes away in the midst of a handshake comes back. By TLS 1.3 the want of a certificate is told after it.
        tls = "SSL alert number" in text or (error.name() == "_SSL" and "Disconnected" not in text)
        if error.name() == "_AUTHENTICATION" or tls:
            self._refused = text
        elif error.name() != "_ALL_BROKERS_DOWN":
            self._told = text
