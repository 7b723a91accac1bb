"""The launcher's own work: which uv it fetches, from where, and that it takes no other file."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cdc_assets.launcher import environment, uv_wheel
from cdc_assets_tests.stack.web import serve

ROOT = Path(__file__).parents[2]


def a_wheel() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("uv-1.0.data/scripts/uv", "#!/bin/sh\necho uv $*\n")
    return content.getvalue()


def name(platform_tag: str | None = None) -> str:
    return f"uv-1.0-py3-none-{platform_tag or f'musllinux_1_1_{platform.machine()}'}.whl"


def repository(folder: Path, url: str, content: bytes) -> Path:
    digest = hashlib.sha256(content).hexdigest()
    wheel = f'    {{ url = "{url}/{name()}", hash = "sha256:{digest}", upload-time = "2026-01-01T00:00:00Z" }},'
    other = (
        '[[package]]\nname = "uvicorn"\nwheels = [\n    { url = "http://x/uvicorn.whl", hash = "sha256:' + "0" * 64 + '" },\n]\n'
    )
    (folder / "uv.lock").write_text(
        f'version = 1\n\n[[package]]\nname = "uv"\nwheels = [\n{wheel}\n]\n\n{other}', encoding="utf-8"
    )
    return folder


def test_the_real_lock_gives_the_wheel_of_each_platform() -> None:
    tomllib = pytest.importorskip("tomllib")
    text = (ROOT / "uv.lock").read_text(encoding="utf-8")
    wheels = uv_wheel.wheels_of(text)
    # The oracle is the real TOML parser of newer Pythons.
    package = next(p for p in tomllib.loads(text)["package"] if p["name"] == "uv")
    assert [(w.url, f"sha256:{w.sha256}") for w in wheels] == [(w["url"], w["hash"]) for w in package["wheels"]]
    for machine, glibc, tag in (
        ("x86_64", True, "manylinux_2_17_x86_64"),
        ("aarch64", True, "aarch64"),
        ("x86_64", False, "musllinux"),
    ):
        assert tag in uv_wheel.pick(wheels, system="Linux", machine=machine, glibc=glibc).name
    assert "macosx_11_0_arm64" in uv_wheel.pick(wheels, system="Darwin", machine="arm64", glibc=False).name
    with pytest.raises(uv_wheel.LauncherError, match="no uv for Plan9"):
        uv_wheel.pick(wheels, system="Plan9", machine="mips", glibc=False)


def test_uv_is_fetched_once_and_runs(tmp_path: Path) -> None:
    content = a_wheel()
    with serve() as site:
        site.files[f"/files/{name()}"] = content
        root = repository(tmp_path, f"{site.url}/files", content)
        first = uv_wheel.fetch(root, tmp_path / "cache", {})
        second = uv_wheel.fetch(root, tmp_path / "cache", {})
        assert len(site.requests) == 1
    assert first == second
    assert subprocess.run([first, "sync"], capture_output=True, text=True, check=True).stdout == "uv sync\n"


def test_another_file_than_the_locked_one_is_refused(tmp_path: Path) -> None:
    with serve() as site:
        site.files[f"/files/{name()}"] = a_wheel() + b"one byte more"
        root = repository(tmp_path, f"{site.url}/files", a_wheel())
        with pytest.raises(uv_wheel.LauncherError, match="is not the locked file: sha256"):
            uv_wheel.fetch(root, tmp_path / "cache", {})
    assert not list((tmp_path / "cache").rglob("uv*.whl*"))


@pytest.mark.parametrize("variable", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"])
def test_a_mirror_is_asked_instead_with_its_login(tmp_path: Path, variable: str) -> None:
    content = a_wheel()
    with serve() as site:
        page = f'<a href="../../files/{name("win32")}">x</a><a href="../../files/{name()}#sha256=0">y</a>'
        site.files |= {"/simple/uv/": page.encode(), f"/files/{name()}": content}
        root = repository(tmp_path, "http://127.0.0.1:9/unreachable", content)
        with_login = site.url.replace("//", "//someone:secret@") + "/simple/"
        binary = uv_wheel.fetch(root, tmp_path / "cache", {variable: with_login})
        assert binary.exists()
        assert [request[0] for request in site.requests] == ["/simple/uv/", f"/files/{name()}"]
        assert all(request[2] == "Basic c29tZW9uZTpzZWNyZXQ=" for request in site.requests)


def test_a_mirror_without_the_file_is_named_without_its_password(tmp_path: Path) -> None:
    with serve() as site:
        site.files["/simple/uv/"] = b"<html></html>"
        root = repository(tmp_path, site.url, a_wheel())
        index = site.url.replace("//", "//someone:secret@") + "/simple"
        with pytest.raises(uv_wheel.LauncherError, match=r"the mirror has no uv-1\.0") as caught:
            uv_wheel.fetch(root, tmp_path / "cache", {"PIP_INDEX_URL": index})
    assert "secret" not in str(caught.value)


def test_the_mirror_of_pip_conf_counts_after_the_variables(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = http://mirror/simple/\n", encoding="utf-8")
    assert uv_wheel.mirror({}, (file,)) == "http://mirror/simple"
    assert uv_wheel.mirror({"UV_DEFAULT_INDEX": "corp=https://other/simple"}, (file,)) == "https://other/simple"
    assert uv_wheel.mirror({}, (tmp_path / "none",)) is None


def fake_python(folder: Path, version: str) -> None:
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\ncase "$1" in -c) exit 1;; --version) echo "Python {version}";; esac\n', encoding="utf-8")
    python.chmod(0o755)


def test_too_old_a_python_is_one_clear_line(tmp_path: Path) -> None:
    fake_python(tmp_path, "3.9.2")
    (tmp_path / "readlink").symlink_to("/usr/bin/readlink")
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    result = subprocess.run(
        ["/bin/sh", str(ROOT / "cdc"), "up"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "python3 of version 3.10 or newer is needed" in result.stderr
    assert "3.9.2" in result.stderr


def test_the_launcher_imports_nothing_but_the_standard_library() -> None:
    code = (
        f"import sys; sys.argv = ['x', '{ROOT}']; import runpy; "
        f"runpy.run_path('{ROOT}/cdc_assets/launcher/environment.py', run_name='not_main'); "
        "print([m for m in sys.modules if 'site-packages' in str(getattr(sys.modules[m], '__file__', ''))])"
    )
    result = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_finished_environment_needs_neither_uv_nor_the_network(tmp_path: Path) -> None:
    root = repository(tmp_path, "http://127.0.0.1:9", a_wheel())
    (root / "pyproject.toml").write_text("", encoding="utf-8")
    (root / "cdc_assets").symlink_to(ROOT / "cdc_assets")
    (root / "cdc").symlink_to(ROOT / "cdc")
    python = root / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$PYTHONPATH $@"\n', encoding="utf-8")
    python.chmod(0o755)
    script = str(ROOT / "cdc_assets" / "launcher" / "environment.py")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CDC_UV": "/bin/true"}
    command = [sys.executable, "-I", script, str(root), "status"]
    for uv in ("/bin/true", "/bin/false"):
        result = subprocess.run(command, env={**environment, "CDC_UV": uv}, capture_output=True, text=True, check=False)
        alone = "-P " if sys.version_info >= (3, 11) else ""
        assert result.stdout == f"{root} {alone}-m cdc_assets.cli status\n", result.stderr
    # Another lock makes it anew, with a uv that fails here.
    (root / "uv.lock").write_text("changed", encoding="utf-8")
    result = subprocess.run(command, env={**environment, "CDC_UV": "/bin/false"}, capture_output=True, text=True, check=False)
    assert (result.returncode, "uv sync exited with 1" in result.stderr) == (1, True)


@pytest.mark.parametrize(("shell", "kept"), [(0o000, "0022"), (0o077, "0077"), (0o002, "0022")])
def test_nobody_else_may_write_into_the_environment_that_is_made(tmp_path: Path, shell: int, kept: str) -> None:
    """Whatever the shell's umask: a module that somebody puts there runs as the user."""
    root = repository(tmp_path, "http://127.0.0.1:9", a_wheel())
    (root / "pyproject.toml").write_text("", encoding="utf-8")
    uv = tmp_path / "uv"
    uv.write_text(f"#!/bin/sh\numask > {tmp_path}/told\nexit 1\n", encoding="utf-8")
    uv.chmod(0o755)
    script = str(ROOT / "cdc_assets" / "launcher" / "environment.py")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CDC_UV": str(uv)}
    command = [sys.executable, "-I", script, str(root), "status"]
    subprocess.run(command, env=environment, capture_output=True, check=False, umask=shell)
    assert (tmp_path / "told").read_text().strip() == kept


def test_the_environment_has_the_command_that_messages_name(tmp_path: Path) -> None:
    root = repository(tmp_path, "http://127.0.0.1:9", a_wheel())
    (root / "pyproject.toml").write_text("", encoding="utf-8")
    (root / "cdc").write_text('#!/bin/sh\necho "cdc: $@"\n', encoding="utf-8")
    (root / "cdc").chmod(0o755)
    (root / ".venv" / "bin").mkdir(parents=True)
    environment.make(root, set(), {"HOME": str(tmp_path), "CDC_UV": "/bin/true"})
    path = {"PATH": f"{root}/.venv/bin:{os.environ['PATH']}"}
    told = subprocess.run(["cdc", "wait", "a b"], env=path, capture_output=True, text=True, check=True)
    assert told.stdout == "cdc: wait a b\n"


def test_uv_has_nothing_to_warn_of() -> None:
    """It warns of commands in pyproject.toml where no package is installed, as `./cdc` does it: setup.py has them."""
    tomllib = pytest.importorskip("tomllib")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert declared["tool"]["uv"]["package"] is False
    assert "scripts" not in declared["project"]
    assert {"scripts", "entry-points"} <= {*declared["project"]["dynamic"]}


def test_help_for_the_tests_needs_no_environment_and_downloads_nothing(tmp_path: Path) -> None:
    root = repository(tmp_path, "http://127.0.0.1:9", a_wheel())
    (root / "pyproject.toml").write_text("", encoding="utf-8")
    (root / "cdc_assets").symlink_to(ROOT / "cdc_assets")
    script = str(ROOT / "cdc_assets" / "launcher" / "environment.py")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CDC_UV": "/bin/false"}
    before = sorted(tmp_path.rglob("*"))
    for arguments in (["test", "--help"], ["test", "-x", "-h"]):
        command = [sys.executable, "-I", script, str(root), *arguments]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.startswith("Usage: cdc test [--fast | --rotate TIME |")
    assert sorted(tmp_path.rglob("*")) == before


def test_up_brings_what_draws_the_ledgers_picture(tmp_path: Path) -> None:
    root = repository(tmp_path, "http://127.0.0.1:9", a_wheel())
    (root / "pyproject.toml").write_text("", encoding="utf-8")
    asked = tmp_path / "asked"
    uv = tmp_path / "uv"
    uv.write_text(f'#!/bin/sh\necho "$@" >> {asked}\nexit 1\n', encoding="utf-8")
    uv.chmod(0o755)
    script = str(ROOT / "cdc_assets" / "launcher" / "environment.py")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CDC_UV": str(uv)}
    for arguments in (["up"], ["validate"]):
        subprocess.run([sys.executable, "-I", script, str(root), *arguments], env=environment, capture_output=True, check=False)
    up, validate = asked.read_text(encoding="utf-8").splitlines()
    assert "--group=plots" in up.split()
    assert "--group=plots" not in validate.split()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 cannot leave out the current folder")
def test_modules_of_the_current_folder_are_not_taken_for_ours(tmp_path: Path) -> None:
    (tmp_path / "cdc_assets").mkdir()
    for file in ("cdc_assets/__init__.py", "typer.py"):
        (tmp_path / file).write_text("raise SystemExit('of the current folder')\n", encoding="utf-8")
    result = subprocess.run([ROOT / "cdc", "--version"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
