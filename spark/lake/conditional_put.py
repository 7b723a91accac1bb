"""Writing an object of S3 only where there is none: `If-None-Match: *`, and what stores answer to it.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

import time
from collections.abc import Callable

_TAKEN = frozenset({"PreconditionFailed", "412"})
# 409: another write of the same key is on its way.
_BUSY = "ConditionalRequestConflict"
_TRIES, _SECONDS = 5, 0.2


def put_unless_there(put: Callable[[], object], failure: type[Exception]) -> bool:
    """Whether `put` has written the object; False: there is one. Its `failure` has botocore's ClientError as its cause.

    Raises:
        failure: the write was refused for another reason, or others were writing the key at each try.
    """
    for left in reversed(range(_TRIES)):
        try:
            put()
            return True
        except failure as error:
            code = s3_code(error)
            if code in _TAKEN:
                return False
            if code != _BUSY or not left:
                raise
            time.sleep(_SECONDS)
    raise AssertionError("unreachable")


def s3_code(error: Exception) -> str:
    """The store's own word for what was wrong, from the cause of our error; empty where it said none."""
    # Of a connection that was closed it is None.
    response = getattr(error.__cause__, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
