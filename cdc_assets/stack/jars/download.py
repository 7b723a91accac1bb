"""Fetches locked jars into the cache: in parallel, each checked by sha256, put in place by one rename.

A jar that is in the cache is verified again by every process that starts something with it: whoever may write there could have
changed it since. A broken download leaves only a `.part` file, which the next try continues where the server can.
Several processes may do this at the same time: the last rename wins, with the
same bytes.
"""

from __future__ import annotations

import hashlib
import os
import ssl
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_assets.stack.errors import DownloadError
from cdc_assets.stack.jars.lockfile import Jar

if TYPE_CHECKING:
    import httpx

Progress = Callable[[int], None]
_TRIES = 4


def cache_folder() -> Path:
    """The folder `$XDG_CACHE_HOME/cdc_assets/jars`; without that variable, in `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cdc_assets" / "jars"


def missing(jars: Iterable[Jar], cache: Path) -> list[Jar]:
    """The jars that are not in the cache yet, largest first."""
    absent = [jar for jar in jars if not _is_whole(cache / jar.path, jar)]
    return sorted(absent, key=lambda jar: -jar.size)


def download(jars: Iterable[Jar], cache: Path, *, repository: str, progress: Progress | None = None, workers: int = 8) -> None:
    """Fetch what is missing.

    Raises:
        DownloadError: naming the first file that could not be had, its URL and the reason.
    """
    import httpx
    import truststore

    wanted = missing(jars, cache)
    if not wanted:
        return
    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    timeout = httpx.Timeout(60, connect=15)
    with httpx.Client(verify=context, timeout=timeout, follow_redirects=True) as client, ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(_fetch, client, jar, cache / jar.path, f"{repository}/{jar.path}", progress) for jar in wanted]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True, wait=False)
            raise


def _fetch(client: httpx.Client, jar: Jar, target: Path, url: str, progress: Progress | None) -> None:
    import httpx
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    retrying = Retrying(
        stop=stop_after_attempt(_TRIES),
        wait=wait_exponential_jitter(multiplier=0.5, max=8),
        retry=retry_if_exception_type((httpx.TransportError, _RetryDownloadError)),
        reraise=True,
    )
    try:
        retrying(_stream, client, url, part, progress)
    except (httpx.HTTPError, _RetryDownloadError) as error:
        part.unlink(missing_ok=True)
        raise DownloadError("jars", f"{url}: {error or type(error).__name__}", _MIRROR_HINT) from error
    found = sha256(part)
    if found != jar.sha256:
        part.unlink()
        reason = f"{url} is not the locked file: sha256 {found}, expected {jar.sha256}"
        raise DownloadError("jars", reason, _MIRROR_HINT)
    part.replace(target)


_MIRROR_HINT = "./cdc up (behind a mirror of Maven Central: set MAVEN_MIRROR_URL)"


class _RetryDownloadError(Exception):
    """An answer that may be another one in a moment."""


def _stream(client: httpx.Client, url: str, part: Path, progress: Progress | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == 416:
            part.unlink(missing_ok=True)
        if response.status_code in (408, 416, 425, 429) or response.status_code >= 500:
            raise _RetryDownloadError(f"HTTP {response.status_code}")
        response.raise_for_status()
        resumed = response.status_code == 206
        with part.open("ab" if resumed else "wb") as file:
            if have and not resumed and progress:
                progress(-have)
            for chunk in response.iter_bytes(1 << 16):
                file.write(chunk)
                if progress:
                    progress(len(chunk))


def _is_whole(file: Path, jar: Jar) -> bool:
    try:
        now = file.stat()
    except FileNotFoundError:
        return False
    return now.st_size == jar.size and _digest(file, now.st_ino, now.st_mtime_ns, now.st_ctime_ns) == jar.sha256


@lru_cache(maxsize=1024)
def _digest(file: Path, _inode: int, _mtime_ns: int, _ctime_ns: int) -> str:
    """Once in a process for each state of a file: the jars are 150 MB, which take 0.1 to 0.4 s."""
    return sha256(file)


def sha256(file: Path) -> str:
    """The hash of a whole file, in hexadecimal digits."""
    with file.open("rb") as stream:
        digest = hashlib.sha256()
        for chunk in iter(lambda: stream.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()
