"""No config leaves with a placeholder that is not ours (cdc_assets.references): Connect resolves it wherever it stands."""

from __future__ import annotations

from collections.abc import Mapping

from cdc_assets.errors import ConnectError
from cdc_assets.references import foreign_placeholders


def refuse_placeholders(config: Mapping[str, str]) -> None:
    """What Connect would resolve: a name of the source's that looks like it would be sent to its database, and logged.

    Raises:
        ConnectError: naming each setting, and what stands in it.
    """
    if foreign := foreign_placeholders(config):
        told = "; ".join(f"{key} has {text}" for key, text in foreign.items())
        raise ConnectError(
            f"connector {config.get('name', '?')}: {told}: Connect would put a secret, a variable or a file in its place. "
            "Rename what is called so in the source, or leave it out of the registry; then ./cdc apply"
        )
