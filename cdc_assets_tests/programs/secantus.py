"""SecantusDB, a MongoDB-compatible server of PyPI, in an environment of its own below the cache.

`secantusdb.txt` pins it, and all that it needs, by hash. Its pymongo is the tests' driver too where they have none of their own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from typing_extensions import override

from cdc_assets.launcher import uv_wheel
from cdc_assets.stack.jars.locked_jars import cache_folder
from cdc_assets_tests.programs.wanted import Program

_LOCK = Path(__file__).with_name("secantusdb.txt")
_REPOSITORY = Path(__file__).parents[2]


class Secantus(Program):
    """Here when its environment is whole."""

    @override
    def is_here(self) -> bool:
        return _python().exists()


SECANTUS = Secantus("SecantusDB, which answers as MongoDB does", ("secantus",), ("SecantusDB 0.7.0b3",), release="PyPI")


def secantus() -> list[str]:
    """The command that starts it.

    Raises:
        ProgramMissingError: it is not here.
    """
    SECANTUS.require()
    return [str(_python()), "-I", "-m", "secantus"]


def packages() -> Path:
    """The folder of its packages, of which pymongo is one."""
    SECANTUS.require()
    (found,) = (_environment() / "lib").glob("python*/site-packages")
    return found


def install() -> None:
    """Make its environment.

    Raises:
        LauncherError: there is no uv, or a package could not be had; the text is uv's last line.
    """
    made, new = _environment(), _environment().with_suffix(".new")
    cache = cache_folder().parent
    uv, index = uv_wheel.fetch(_REPOSITORY, cache, dict(os.environ)), uv_wheel.mirror(os.environ)
    shutil.rmtree(new, ignore_errors=True)
    _run(uv, "venv", "--relocatable", "--python", sys.executable, new)
    source = () if index is None else ("--default-index", index)
    _run(uv, "pip", "sync", "--require-hashes", "--only-binary=:all:", *source, "--python", new / "bin" / "python", _LOCK)
    # Whoever looks for it finds it when it is known to run.
    _run(new / "bin" / "python", "-m", "secantus", "--help")
    shutil.rmtree(made, ignore_errors=True)
    new.rename(made)


def _environment() -> Path:
    """One for each lock and each Python."""
    lock = hashlib.sha256(_LOCK.read_bytes()).hexdigest()[:16]
    return cache_folder().parent / "secantusdb" / f"{lock}-{sys.version_info.major}{sys.version_info.minor}"


def _python() -> Path:
    return _environment() / "bin" / "python"


def _run(*command: str | Path) -> None:
    left_out = ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "PYTHONPATH", "PYTHONHOME")
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    environment |= {"UV_PYTHON_DOWNLOADS": "never", "UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
    text = [str(part) for part in command]
    done = subprocess.run(text, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise uv_wheel.LauncherError(f"{text[0]}: {(said or ['it printed nothing'])[-1]}")
