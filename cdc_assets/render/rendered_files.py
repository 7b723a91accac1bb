"""Rendered files on disk: written, compared, and removed when nobody wants them any more; only files that are ours.

`<target>/.cdc-render` lists them. A file that it does not list is somebody else's: never removed, never overwritten.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cdc_assets.errors import RenderError

_LIST = ".cdc-render"
_NO_NEWLINE = "\n\\ No newline at end of file\n"


@dataclass(frozen=True)
class FileChange:
    """What would become of one file; `before` None: absent, `after` None: removed."""

    path: str
    before: str | None
    after: str | None

    @property
    def action(self) -> Literal["create", "change", "remove"]:
        """What happens to the file, in one word."""
        if self.after is None:
            return "remove"
        return "create" if self.before is None else "change"

    def diff(self) -> str:
        """As `git apply` takes it."""
        return file_diff(self.path, self.before, self.after)


def file_diff(path: str, before: str | None, after: str | None, out: str = "") -> str:
    """A unified diff of one file, in the folder `out`."""
    path = f"{out}/{path}" if out else path
    lines = difflib.unified_diff(
        _lines(before or ""),
        _lines(after or ""),
        f"a/{path}" if before is not None else "/dev/null",
        f"b/{path}" if after is not None else "/dev/null",
    )
    text = "".join(line if line.endswith("\n") else f"{line}{_NO_NEWLINE}" for line in lines)
    mode = "" if before is not None and after is not None else f"{'new' if before is None else 'deleted'} file mode 100644\n"
    return f"diff --git a/{path} b/{path}\n{mode}{text}"


def changes(out: Path, target: str, wanted: Mapping[str, str]) -> list[FileChange]:
    """What stands between the folder and the wanted files, by path.

    Raises:
        RenderError: when a wanted file is there already, is another one, and is not ours.
    """
    ours = _ours(out, target)
    found = []
    for path, text in sorted({**with_list(target, wanted)}.items()):
        before = _read(out / path)
        if before == text:
            continue
        if before is not None and path not in ours and not path.endswith(_LIST):
            raise RenderError(f"{out / path} is there, and was not written by `cdc render`: move it away, or render elsewhere")
        found.append(FileChange(path, before, text))
    for path in sorted(ours - set(wanted)):
        before = _read(out / path)
        if before is not None:
            found.append(FileChange(path, before, None))
    return found


def apply(out: Path, found: list[FileChange]) -> None:
    """Make the changes. Whenever it ends, each of our files is in the list, so that a later render knows it.

    Raises:
        RenderError: a file cannot be written.
    """
    lists = [change for change in found if change.path.endswith(f"/{_LIST}")]
    both = [
        replace(change, after="".join(sorted({*_lines(change.before or ""), *_lines(change.after or "")}))) for change in lists
    ]
    try:
        for change in (*both, *(change for change in found if change not in lists), *lists):
            file = out / change.path
            if change.after is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(change.after, encoding="utf-8")
    except OSError as error:
        raise RenderError(f"{error.filename or out}: {error.strerror}: no manifest can be written there") from error


def with_list(target: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """The files and the list of them."""
    listed = "".join(f"{path.removeprefix(f'{target}/')}\n" for path in sorted(wanted))
    return {**wanted, f"{target}/{_LIST}": listed}


def _ours(out: Path, target: str) -> set[str]:
    root = (out / target).resolve()
    listed = (_read(out / target / _LIST) or "").splitlines()
    # The list is a committed file: whatever it says, nothing outside of its folder is touched.
    return {f"{target}/{line}" for line in listed if line and (root / line).resolve().is_relative_to(root)}


def _read(file: Path) -> str | None:
    try:
        # Whatever somebody has put into it differs, and is shown.
        return file.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RenderError(f"{file}: {error.strerror}: name a folder by --out, or move away what is in the way") from error


def _lines(text: str) -> list[str]:
    """At line feeds alone, as git has them."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
