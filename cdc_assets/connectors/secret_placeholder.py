"""A secret in a connector's config: what the worker puts in its place itself, so that the config holds none."""

from __future__ import annotations

from cdc_assets import settings
from cdc_assets.references import SecretRef


def password_placeholder(password: SecretRef) -> str:
    """`${dir:…}`, or what the reference says of the worker, which resolves it itself."""
    if password.on_connect is not None:
        return password.on_connect.placeholder
    secrets = settings.lookup("CDC_CONNECT_SECRETS") or str(settings.home() / "secrets")
    return f"${{dir:{secrets}:{password.secret}}}"
