"""Verbs whose exit code 1 is a finding: what keeps them from finding anything is exit code 2."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from cdc_assets.errors import ON_PURPOSE


@contextmanager
def report_errors() -> Iterator[None]:
    """Whatever ends the block is told, and becomes exit code 2; a fault of ours with its stack trace.

    Raises:
        typer.Exit: 2.
    """
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise
    except ON_PURPOSE as error:
        if os.environ.get("CDC_DEBUG"):
            traceback.print_exc()
        print(f"cdc: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    except Exception as error:
        # Python's own exit code for it is 1, which says here that something differs.
        traceback.print_exc()
        raise typer.Exit(2) from error
