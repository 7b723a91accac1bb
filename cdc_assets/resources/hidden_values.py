"""Values of sensitive columns as hashes: equal values look equal within one answer, and nobody can try values against them."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any


class HiddenValues:
    """Hashes that are comparable within one answer only: the salt is thrown away with it."""

    def __init__(self) -> None:
        self.salt = secrets.token_bytes(16)

    def hide(self, value: object) -> str | None:
        """The hash of a value's text; of nothing, nothing."""
        if value is None:
            return None
        return "hash:" + hashlib.blake2b(str(value).encode(), key=self.salt, digest_size=8).hexdigest()

    def hide_column(self, values: Any) -> Any:
        """An Arrow array as one of hashes."""
        import pyarrow as pa

        return pa.array([self.hide(value) for value in values.to_pylist()], pa.string())
