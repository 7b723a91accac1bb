"""Fetches the uv that uv.lock pins, by hash, with nothing but the standard library: no pip, no venv, no ensurepip.

Debian's python3 has none of those. The wheel is a zip file with one static binary in it. Its name, URL and sha256 are
read from uv.lock line by line, because Python 3.10 has no TOML parser; behind a mirror of PyPI the file is looked up on the
mirror's simple page, and must still be the locked one.
"""

from __future__ import annotations

import base64
import configparser
import hashlib
import html.parser
import os
import platform
import re
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CERTIFICATE_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_WHEEL = re.compile(r'\{ url = "([^"]+/([^"/]+\.whl))", hash = "sha256:([0-9a-f]{64})"')


class LauncherError(Exception):
    """The environment cannot be made; the text says why and what to do."""


class Wheel:
    """One wheel of uv.lock: its address, file name and hash."""

    def __init__(self, url: str, name: str, sha256: str) -> None:
        self.url, self.name, self.sha256 = url, name, sha256


def wheels_of(lock: str, package: str = "uv") -> list[Wheel]:
    """The wheels of a package in the text of uv.lock."""
    head = rf'^\[\[package\]\]\nname = "{re.escape(package)}"\n'
    section = re.search(head + r"(.*?)(?=^\[\[package\]\]|\Z)", lock, re.MULTILINE | re.DOTALL)
    wheels = [Wheel(*match) for match in _WHEEL.findall(section[1])] if section else []
    if not wheels:
        raise LauncherError(f"uv.lock holds no wheels of {package}: git checkout uv.lock")
    return wheels


def pick(wheels: list[Wheel], *, system: str, machine: str, glibc: bool) -> Wheel:
    """The wheel for this platform; statically linked (musl) ones run everywhere on Linux."""
    machine = {"amd64": "x86_64", "AMD64": "x86_64"}.get(machine, machine)
    kinds = {"Linux": ("manylinux", "musllinux") if glibc else ("musllinux",), "Darwin": ("macosx",)}.get(system, ())
    for kind in kinds:
        for wheel in wheels:
            tags = wheel.name[: -len(".whl")].split("-")[-1].split(".")
            if any(tag.startswith(kind) and tag.endswith("_" + machine) for tag in tags):
                return wheel
    raise LauncherError(f"uv.lock holds no uv for {system} on {machine}; install uv yourself and set CDC_UV to it")


def mirror(environment: Mapping[str, str], pip_files: tuple[Path, ...] | None = None) -> str | None:
    """The index that the user has set instead of PyPI."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if environment.get(name):
            # uv allows NAME=URL.
            return re.sub(r"^[A-Za-z0-9._-]+=(?=https?:)", "", environment[name]).rstrip("/")
    home = Path(environment.get("HOME", "/nonexistent"))
    for file in pip_files or (home / ".config/pip/pip.conf", home / ".pip/pip.conf", Path("/etc/pip.conf")):
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, OSError):
            continue
        if parser.has_option("global", "index-url"):
            return parser.get("global", "index-url").strip().rstrip("/")
    return None


def on_mirror(wheel: Wheel, index: str) -> str:
    """The file's URL on the mirror's simple page."""
    page = f"{index}/{wheel.name.partition('-')[0].replace('_', '-')}/"
    with open_url(page) as response:
        links = _Links(response.read().decode("utf-8", "replace"))
    for href in links.found:
        url = urllib.parse.urljoin(response.url, href)
        if urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2] == wheel.name:
            base = urllib.parse.urlsplit(index)
            parts = urllib.parse.urlsplit(url)
            if "@" in base.netloc and parts.netloc == base.netloc.rpartition("@")[2]:
                parts = parts._replace(netloc=base.netloc)
            return urllib.parse.urlunsplit(parts._replace(fragment=""))
    raise LauncherError(f"the mirror has no {wheel.name}: {_without_password(page)}")


def fetch(root: Path, cache: Path, environment: dict[str, str]) -> Path:
    """The uv binary of the lock, from the cache or fetched."""
    if environment.get("CDC_UV"):
        return Path(environment["CDC_UV"])
    lock = (root / "uv.lock").read_text(encoding="utf-8")
    glibc = platform.libc_ver()[0] == "glibc"
    wheel = pick(wheels_of(lock), system=platform.system(), machine=platform.machine(), glibc=glibc)
    folder = cache / "uv" / wheel.sha256[:16]
    binary = folder / "uv"
    if binary.exists():
        return binary
    index = mirror(environment)
    url = on_mirror(wheel, index) if index else wheel.url
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{wheel.name}.{os.getpid()}.part"
    try:
        download(url, archive, sha256=wheel.sha256)
        partial = folder / f"uv.{os.getpid()}.part"
        with zipfile.ZipFile(archive) as contents:
            member = next(name for name in contents.namelist() if name.endswith("/scripts/uv"))
            partial.write_bytes(contents.read(member))
        partial.chmod(0o755)
        partial.replace(binary)
    finally:
        archive.unlink(missing_ok=True)
    return binary


def download(url: str, target: Path, *, sha256: str) -> None:
    """Fetch a file and check it; the target is there only if it is the right one."""
    digest = hashlib.sha256()
    try:
        with open_url(url) as response, target.open("wb") as file:
            size = int(response.headers.get("Content-Length") or 0)
            done = 0
            while chunk := response.read(1 << 18):
                file.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                _show(f"fetching uv: {done / 1e6:.0f} of {size / 1e6:.0f} MB", end=done >= size)
    except OSError as error:
        target.unlink(missing_ok=True)
        raise LauncherError(f"{_without_password(url)}: {error}; ./cdc again (behind a mirror: set PIP_INDEX_URL)") from error
    if digest.hexdigest() != sha256:
        target.unlink()
        raise LauncherError(f"{_without_password(url)} is not the locked file: sha256 {digest.hexdigest()}, expected {sha256}")


def _show(text: str, *, end: bool) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text}" + ("\n" if end else ""))
    elif end:
        sys.stderr.write(text + "\n")
    sys.stderr.flush()


def open_url(url: str, headers: Mapping[str, str] | None = None) -> Any:
    """The answer to a GET, with the login that the URL carries and against the system's trust store.
    Raises LauncherError: naming the URL without its password."""
    parts = urllib.parse.urlsplit(url)
    headers = {"User-Agent": "cdc-assets-launcher", "Accept": "text/html, */*;q=0.5", **(headers or {})}
    if "@" in parts.netloc:
        login, _, host = parts.netloc.rpartition("@")
        headers["Authorization"] = "Basic " + base64.b64encode(urllib.parse.unquote(login).encode()).decode()
        parts = parts._replace(netloc=host)
    request = urllib.request.Request(urllib.parse.urlunsplit(parts), headers=headers)
    try:
        return urllib.request.urlopen(request, timeout=60, context=_tls())
    except (urllib.error.URLError, OSError) as error:
        raise LauncherError(f"{_without_password(url)}: {error}") from error


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()  # OpenSSL itself goes by SSL_CERT_FILE and SSL_CERT_DIR
    # A Python that was built elsewhere looks for the store in places that do not exist here.
    if ssl.get_default_verify_paths().cafile is None and not context.cert_store_stats()["x509_ca"]:
        for bundle in CERTIFICATE_BUNDLES:
            if Path(bundle).exists():
                context.load_verify_locations(bundle)
                break
    return context


def _without_password(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//***@", url)


class _Links(html.parser.HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]
