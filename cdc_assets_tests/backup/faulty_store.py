"""A store whose process dies at its n-th operation: before it takes effect, or after it but before the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from cdc_assets.clients.object_store import ObjectStore, StoredObject

Answer = TypeVar("Answer")


class KilledError(BaseException):
    """No `except Exception` can survive it, as none survives SIGKILL."""


class FaultyStore(ObjectStore):
    """Passes everything on to another store; calls `at_each(operation, key)` first."""

    def __init__(
        self,
        inner: ObjectStore,
        *,
        dies_at: int = -1,
        after_effect: bool = False,
        at_each: Callable[[str, str], None] | None = None,
    ) -> None:
        super().__init__(inner.config)
        self._inner = inner
        self._left = dies_at
        self._after_effect = after_effect
        self._at_each = at_each
        self.done: list[tuple[str, str]] = []

    def put(self, key: str, data: bytes) -> None:
        self._act("put", key, lambda: self._inner.put(key, data))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self._act("put_if_absent", key, lambda: self._inner.put_if_absent(key, data))

    def get(self, key: str) -> bytes:
        return self._act("get", key, lambda: self._inner.get(key))

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        yield from self._act("list", prefix, lambda: list(self._inner.list(prefix, after=after)))

    def delete(self, key: str) -> None:
        self._act("delete", key, lambda: self._inner.delete(key))

    def create_bucket(self) -> None:
        self._inner.create_bucket()

    def _act(self, operation: str, key: str, action: Callable[[], Answer]) -> Answer:
        if self._at_each is not None:
            self._at_each(operation, key)
        dies = self._left == 0
        self._left -= 1
        if dies and not self._after_effect:
            raise KilledError(f"before {operation} {key}")
        answer = action()
        self.done.append((operation, key))
        if dies:
            raise KilledError(f"after {operation} {key}")
        return answer
