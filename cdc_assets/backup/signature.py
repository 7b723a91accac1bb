"""Who wrote the head of a backup's chain: a keyed digest beside what names the newest object, by the secret `backup_key`.

Each manifest and each entry names the digest of the one before it, and its objects by their digests. So the head's signature
covers all of them. Who may write the bucket and lacks the secret cannot make a head of his own; he can put back an older one.
https://www.rfc-editor.org/rfc/rfc2104 (HMAC, here with SHA-256)
"""

from __future__ import annotations

import hashlib
import hmac

from cdc_assets import settings
from cdc_assets.errors import MissingSecretError
from cdc_assets.references import SecretRef

SECRET = "backup_key"
UNSIGNED = "not signed"
SIGNED = f"signed by {SECRET}"
NOT_LOOKED_AT = f"signed; no secret {SECRET} here to compare it with"


def sign(place: str, text: str) -> str:
    """The keyed digest of what an object at `place` says, so that it counts nowhere else; empty without the secret."""
    key = _key()
    return hmac.new(key, f"{place}\n{text}".encode(), hashlib.sha256).hexdigest() if key else ""


def describe(signature: str) -> str:
    """What is known of who wrote it, for people."""
    if not signature:
        return UNSIGNED
    return SIGNED if _key() else NOT_LOOKED_AT


def find_forgery(place: str, text: str, signature: str) -> str:
    """Why it was not written by who has the secret; empty: it was, or there is no secret here."""
    expected = sign(place, text)
    if not expected:
        return ""
    if not signature:
        return f"{place} is not signed, and secret {SECRET} is here: it is of before the secret, or somebody else wrote it"
    if not hmac.compare_digest(expected, signature):
        return f"{place} has another signature than secret {SECRET} makes: somebody else wrote it, or the secret is another one"
    return ""


def _key() -> bytes:
    try:
        return settings.secret(SecretRef(secret=SECRET)).encode()
    except MissingSecretError:
        return b""
