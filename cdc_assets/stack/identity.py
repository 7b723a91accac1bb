"""As whom a component runs that refuses root: ourselves, another user, or a user namespace; decided by trying.

The choice is made once per start: through `child.py`, in each way, it is asked whether the program may be run.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cdc_assets.stack.errors import StackError

CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True)
class Identity:
    """Options for `child.py`, and the owner that the data folder must have (None: ourselves)."""

    options: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None


def wrap(command: list[str], identity: Identity | None = None, *, parent: int | None = None) -> list[str]:
    """The command line that runs `command` as a child which dies with its parent."""
    options = identity.options if identity else ()
    return [sys.executable, "-I", "-S", str(CHILD), str(parent or os.getpid()), *options, "--", *command]


@cache
def pick_identity(component: str, program: str = "/") -> Identity:
    """Ourselves when we are not root, else the first other way that works here and may run the program.

    Raises:
        StackError: with what was tried.
    """
    if os.geteuid() != 0:
        return Identity()
    tried = []
    for identity in _candidates():
        result = subprocess.run(wrap(["test", "-x", program], identity), capture_output=True, text=True, check=False)
        if result.returncode == 0:
            return identity
        tried.append(f"{' '.join(identity.options)}: {(result.stderr.strip().splitlines() or [f'may not run {program}'])[-1]}")
    reason = "it refuses to run as root, and this machine lets us become nobody else (" + "; ".join(tried) + ")"
    raise StackError(component, reason, "run ./cdc as an ordinary user, or clone it where others may enter, such as /opt")


def _candidates() -> list[Identity]:
    users = []
    for name in ("postgres", "nobody"):
        try:
            users.append(pwd.getpwnam(name))
        except KeyError:
            continue
    users += [user for user in pwd.getpwall() if user.pw_uid >= 1000 and user not in users]
    named = [Identity(("--uid", str(u.pw_uid), "--gid", str(u.pw_gid)), u.pw_uid, u.pw_gid) for u in users[:4] if u.pw_uid]
    return [*named, Identity(("--user-namespace",))]
