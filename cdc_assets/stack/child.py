"""Runs one command as a child that cannot outlive its parent, by choice as another user. Executed as a plain script.

    python -I -S child.py PARENT_PID [--uid UID --gid GID | --user-namespace] -- COMMAND...

A script and not a preexec_fn: the supervisor has threads (librdkafka, gRPC), and Python code between fork and exec of
such a process may dead-lock. Standard library only, no package import: 15 ms.
PostgreSQL refuses to run as root. Root therefore becomes an unprivileged user that keeps one capability, as an ambient
one, so that it can still walk through the 0700 folders above its data: DAC_READ_SEARCH, or DAC_OVERRIDE where a container
has only that. Without a second user id (some containers) it becomes user 1000 of a user namespace that maps to ourselves.
"""

import ctypes
import os
import signal
import struct
import sys
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_SET_SECUREBITS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 1, 8, 28, 47, 2
SECBIT_NO_SETUID_FIXUP = 1 << 2
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
CLONE_NEWUSER = 0x10000000
LINUX_CAPABILITY_VERSION_3 = 0x20080522


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def become(uid: int, gid: int) -> None:
    """Drop root for good, keeping the one capability where we have it."""
    libc = _libc()
    with Path("/proc/self/status").open() as status:
        permitted = next(int(line.split()[1], 16) for line in status if line.startswith("CapPrm"))
    kept = next((cap for cap in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE) if permitted >> cap & 1), None)
    _check(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "prctl(PR_SET_KEEPCAPS)")
    # access(2) leaves capabilities out unless this bit is set (fs/open.c, access_override_creds), and PostgreSQL asks it whether
    # its own programs may be run: below a 0700 folder such as /root it would not find them. Elsewhere a probe tells.
    libc.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    mask = 1 << kept if kept is not None else 0
    header = struct.pack("Ii", LINUX_CAPABILITY_VERSION_3, 0)
    data = struct.pack("6I", mask, mask, mask, 0, 0, 0)
    _check(libc.capset(header, data), "capset")
    if kept is not None:
        _check(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, kept, 0, 0), "prctl(PR_CAP_AMBIENT)")


def enter_user_namespace() -> None:
    """Be user 1000 of a namespace of our own; files stay ours outside of it."""
    outer_uid, outer_gid = os.getuid(), os.getgid()
    _check(_libc().unshare(CLONE_NEWUSER), "unshare(CLONE_NEWUSER)")
    for name, text in (("setgroups", "deny"), ("uid_map", f"1000 {outer_uid} 1"), ("gid_map", f"1000 {outer_gid} 1")):
        Path(f"/proc/self/{name}").write_text(text)


def main(arguments: list) -> None:
    """Set up this process, then become the command."""
    parent, options = int(arguments[0]), arguments[1 : arguments.index("--")]
    command = arguments[arguments.index("--") + 1 :]
    os.umask(0o077)
    if "--uid" in options:
        become(int(options[options.index("--uid") + 1]), int(options[options.index("--gid") + 1]))
    elif "--user-namespace" in options:
        enter_user_namespace()
    # After the change of user, which clears it; and the parent may be gone already.
    _check(_libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        sys.exit("the parent is gone")
    os.execvpe(command[0], command, os.environ)


if __name__ == "__main__":
    main(sys.argv[1:])
