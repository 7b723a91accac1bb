"""Which config values may be shown. Connect returns configs in clear text (KAFKA-5117), and quotes values in its errors.

A value is a secret when its ConfigDef type is PASSWORD, or when its key says so (what a ConfigDef does not know:
converters, client overrides, JAAS). A reference such as `${dir:/secrets:shop}` names a secret and may be shown; a
value that only contains one may hold anything beside it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from cdc_assets.references import is_reference, tells_secret

HIDDEN = "[hidden]"
# scheme://user:password@host, and jdbc:oracle:thin:user/password@host
_USER_INFO = re.compile(r"(?<=://)[^/\s@]*:[^/\s]*@|(?<=:thin:)[^/\s@]*/[^\s@]*@")
# jdbc:…?password=…, JAAS options, key=value lists
_ASSIGNED = re.compile(r"(?i)\b(\w*(?:password|passwd|secret|token))(\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s;&,\"']+)")


def is_secret(key: str, password_keys: Collection[str] = ()) -> bool:
    """Whether the value of this config key may be a secret."""
    return key in password_keys or tells_secret(key)


def mask_value(key: str, value: str, password_keys: Collection[str] = ()) -> str:
    """The value, or `[hidden]` where it may be a secret."""
    if is_reference(value):
        return value
    return HIDDEN if is_secret(key, password_keys) else mask_text(value)


def mask_config(config: Mapping[str, str], password_keys: Collection[str] = ()) -> dict[str, str]:
    """A whole config, fit to be printed."""
    return {key: mask_value(key, str(value), password_keys) for key, value in sorted(config.items())}


def mask_logins(text: str) -> str:
    """A text without the logins of addresses in it."""
    return _USER_INFO.sub(f"{HIDDEN}@", text)


def mask_text(text: str, config: Mapping[str, str] | None = None, password_keys: Collection[str] = ()) -> str:
    """A message without the secret values of `config`, and without what looks like a password by itself."""
    for key, value in sorted((config or {}).items(), key=lambda item: -len(str(item[1]))):
        if value and is_secret(key, password_keys) and not is_reference(str(value)):
            text = text.replace(str(value), HIDDEN)
    shown = mask_logins(text)
    return _ASSIGNED.sub(lambda found: found[0] if is_reference(found[3]) else f"{found[1]}{found[2]}{HIDDEN}", shown)
