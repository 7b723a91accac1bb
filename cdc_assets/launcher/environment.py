"""Makes `<repository>/.venv` as uv.lock says, then becomes the `cdc` command.

Executed as a script: `python -I environment.py ROOT ARGS...`

A stamp in the environment (hash of uv.lock, Python, groups) makes every later start immediate. Several launches at the
same time wait for one another.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

_STAMP = ".cdc-stamp.json"


def cache_folder(environment: dict[str, str]) -> Path:
    """The folder `$XDG_CACHE_HOME/cdc_assets`; without that variable, in `~/.cache`."""
    return Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or "~").expanduser() / ".cache") / "cdc_assets"


def stamp_content(root: Path, groups: set[str]) -> dict[str, object]:
    """What the stamp of a finished environment says."""
    digest = hashlib.sha256((root / "uv.lock").read_bytes())
    digest.update((root / "pyproject.toml").read_bytes())
    return {"lock": digest.hexdigest(), "python": f"{sys.version_info[0]}.{sys.version_info[1]}", "groups": sorted(groups)}


def is_made(root: Path, groups: set[str]) -> bool:
    """Whether the environment is the one of this lock, with at least these groups."""
    stamp = _read_stamp(root)
    want = stamp_content(root, groups)
    same = all(stamp.get(key) == want[key] for key in ("lock", "python"))
    return same and groups <= set(stamp.get("groups", ())) and (root / ".venv" / "bin" / "python").exists()


def make(root: Path, groups: set[str], environment: dict[str, str]) -> None:
    """Create or update the environment."""
    import uv_wheel

    cache = cache_folder(environment)
    cache.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(str(root).encode()).hexdigest()[:16]
    with (cache / f"environment-{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("cdc: another launch makes the environment; waiting for it", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if is_made(root, groups):
            return
        # Groups that were asked for once stay: `cdc up` after `cdc test` takes nothing away.
        groups = groups | set(_read_stamp(root).get("groups", ())) | _present(root)
        print(f"cdc: making the Python environment in {root / '.venv'}", file=sys.stderr)
        uv = uv_wheel.fetch(root, cache, environment)
        stamp = root / ".venv" / _STAMP
        stamp.unlink(missing_ok=True)
        _sync(uv, root, groups, environment)
        # `cdc`, as our messages write it, for a shell that has the environment on its PATH (`./cdc env`).
        command = root / ".venv" / "bin" / "cdc"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(str(root / "cdc"))} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        stamp.write_text(json.dumps(stamp_content(root, groups)), encoding="utf-8")


def _sync(uv: Path, root: Path, groups: set[str], environment: dict[str, str]) -> None:
    settings = {
        **{
            key: value for key, value in environment.items() if key not in ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "PYTHONPATH")
        },
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_SYSTEM_CERTS": "1",
        "UV_NATIVE_TLS": "1",
        "UV_HTTP_TIMEOUT": environment.get("UV_HTTP_TIMEOUT", "120"),
        # Once here, or at the first import of each: 1.5 s of CPU for each of a stack's eight Python processes where the
        # environment forbids to write it then (PYTHONDONTWRITEBYTECODE, which images often set).
        "UV_COMPILE_BYTECODE": "1",
    }
    selection = ["--frozen", "--no-default-groups", "--all-extras", *(f"--group={group}" for group in sorted(groups))]
    import uv_wheel

    index = uv_wheel.mirror(environment)
    if not index:
        _run([uv, "sync", *selection, "--python", sys.executable], root, settings)
        return
    # uv.lock carries the addresses of PyPI's own files: behind a mirror the same versions are installed by name and hash.
    requirements = root / ".venv" / "requirements.lock.txt"
    _run([uv, "venv", "--allow-existing", "--python", sys.executable, root / ".venv"], root, settings)
    _run([uv, "export", *selection, "--no-emit-project", "--quiet", "--output-file", requirements], root, settings)
    target = ["--python", root / ".venv" / "bin" / "python", "--default-index", index]
    _run([uv, "pip", "sync", "--require-hashes", *target, requirements], root, settings)


def _run(command: list[object], root: Path, environment: dict[str, str]) -> None:
    text = [str(argument) for argument in command]
    # Standard output is the command's own: `./cdc status -o json` may be what makes the environment.
    code = subprocess.run(text, cwd=root, env=environment, stdout=sys.stderr, check=False).returncode
    if code:
        import uv_wheel

        raise uv_wheel.LauncherError(f"uv {text[1]} exited with {code}, see above; ./cdc tries again")


def _read_stamp(root: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((root / ".venv" / _STAMP).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return {}


def _present(root: Path) -> set[str]:
    # What was installed by hand stays: for development, and the drivers of databases (docs/reference/databases.md).
    packages = {"dev": "pytest", "databases": "oracledb"}
    return {group for group, name in packages.items() if any((root / ".venv").glob(f"lib/python3*/site-packages/{name}"))}


def groups_for(arguments: list[str]) -> set[str]:
    """The dependency groups that a command needs beside what every command needs."""
    if arguments[:1] == ["test"]:
        return {"dev"}
    if {"--help", "-h"} & set(arguments):
        return set()
    if arguments[:1] in (["sql"], ["notebook"]):
        return {arguments[0]}
    # `up`: the ledger's assets show their picture in Dagster.
    plots = arguments[:1] == ["up"] or (arguments[:1] == ["ledger"] and any(a.split("=")[0] == "--plot" for a in arguments))
    return {"plots"} if plots else set()


def _make_or_exit(root: Path, groups: set[str], environment: dict[str, str]) -> None:
    # Only here is the fetching of uv loaded: its HTTP and TLS modules would be a tenth of `cdc --help`.
    import uv_wheel

    try:
        make(root, groups, environment)
    except uv_wheel.LauncherError as error:
        print(f"cdc: {error}", file=sys.stderr)
        sys.exit(1)


def main() -> None:
    """Make the environment, then run cdc in it: `environment.py ROOT ARGS...`."""
    root, arguments = Path(sys.argv[1]), sys.argv[2:]
    if arguments[:1] == ["test"] and {"--help", "-h"} & set(arguments):
        import test_help

        print(test_help.TEXT, end="")
        return
    # At most what the shell allows, and never a folder of the environment that others may write a module into.
    os.umask(os.umask(0o022) | 0o022)
    groups = groups_for(arguments)
    environment = dict(os.environ)
    try:
        if not is_made(root, groups):
            _make_or_exit(root, groups, environment)
        if arguments[:1] in (["up"], ["test"]):
            # Before the Python processes of a stack start: a tenth of a second where nothing changed. It saves 10 seconds of CPU
            # after a `git pull` where PYTHONDONTWRITEBYTECODE is set. What does not compile is told by who imports it.
            command = [str(root / ".venv" / "bin" / "python"), "-m", "compileall", "-q", "cdc_assets", "spark"]
            subprocess.run(command, cwd=root, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    except KeyboardInterrupt:
        print("cdc: interrupted; ./cdc goes on where it was", file=sys.stderr)
        sys.exit(130)
    python = str(root / ".venv" / "bin" / "python")
    # The package is run from the repository, whatever the current folder is.
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(root), environment.get("PYTHONPATH"))))
    # -m looks into the current folder first, where other modules may have our names; Python 3.10 has no -P.
    alone = ["-P"] if sys.version_info >= (3, 11) else []
    os.execve(python, [python, *alone, "-m", "cdc_assets.cli", *arguments], environment)


if __name__ == "__main__":
    main()
