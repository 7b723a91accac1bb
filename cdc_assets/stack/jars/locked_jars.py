"""The jars of `jars.lock.toml`, each with sha256 and size: read, fetched once into a cache, verified at every start.

The format is a small subset of TOML (written here, read by `tomllib` where Python has it, line by line on 3.10). Jars come from
the lock's repository, or from a mirror: MAVEN_MIRROR_URL, COURSIER_REPOSITORIES (its first http entry), `<mirror>` of central or
* in ~/.m2/settings.xml. Those that the pyspark wheel brings are taken from there.

A jar in the cache is verified again by every process that starts something with it: whoever may write there could have changed
it. A broken download leaves a `.part` file, which the next try continues where the server can. Several processes may do this
at the same time: the last rename wins, with the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import ssl
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from cdc_assets.stack.stack_errors import StackError

if TYPE_CHECKING:
    import httpx

LOCK = Path(__file__).with_name("jars.lock.toml")
_JAR = re.compile(r'\{ gav = "([^"]+)", sha256 = "([0-9a-f]{64})", size = (\d+), licence = "([^"]*)" \},')


@dataclass(frozen=True)
class Jar:
    """One locked file; `gav` is `group:artifact:version`, of what is no jar `group:artifact:packaging:classifier:version`."""

    gav: str
    sha256: str
    size: int
    licence: str = ""

    @property
    def path(self) -> PurePosixPath:
        """Its place in a Maven repository, and in our cache."""
        group, artifact, *other, version = self.gav.split(":")
        packaging, suffix = (other[0], f"-{other[1]}") if other else ("jar", "")
        return PurePosixPath(*group.split("."), artifact, version, f"{artifact}-{version}{suffix}.{packaging}")


@dataclass(frozen=True)
class JarLock:
    """All sets of jars that are locked, and the repository they come from."""

    repository: str
    sets: Mapping[str, tuple[Jar, ...]]

    def jars(self, names: Iterable[str]) -> list[Jar]:
        """The jars of these sets, each file once."""
        return list({jar.gav: jar for name in names for jar in self.sets[name]}.values())


def read_lock(file: Path = LOCK) -> JarLock:
    """The committed lock. Raises StackError: naming the line that cannot be read."""
    repository = ""
    sets: dict[str, list[Jar]] = {}
    current: list[Jar] | None = None
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#") or text == "]":
            continue
        if text.startswith("repository = "):
            repository = text.split('"')[1]
        elif text.endswith("= ["):
            current = sets.setdefault(text.split('"')[1], [])
        elif (match := _JAR.fullmatch(text)) and current is not None:
            current.append(Jar(match[1], match[2], int(match[3]), match[4]))
        else:
            raise StackError("jars", f"{file}:{number} is not a line of a jar lock: {text}", "git checkout " + file.name)
    return JarLock(repository, {name: tuple(jars) for name, jars in sets.items()})


def write_lock(lock: JarLock, file: Path = LOCK) -> None:
    """Write it as TOML, sorted, so that a new lock is a readable diff."""
    lines = [
        "# Written by `python -m cdc_assets.stack.jars.jar_sets` from sets.py; not edited by hand.",
        f'repository = "{lock.repository}"',
    ]
    for name, jars in sorted(lock.sets.items()):
        lines += ["", f'"{name}" = [']
        lines += [_line(jar) for jar in sorted(jars, key=lambda jar: jar.gav)]
        lines += ["]"]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _line(jar: Jar) -> str:
    licence = jar.licence.replace('"', "'")
    return f'  {{ gav = "{jar.gav}", sha256 = "{jar.sha256}", size = {jar.size}, licence = "{licence}" }},'


def repository(default: str, environment: Mapping[str, str] = os.environ, settings: Path | None = None) -> str:
    """The base URL, without a slash at its end; the sha256 of the lock holds for every one of them."""
    # Entries are separated by "|"; names such as "central" or "ivy2Local" stand for themselves.
    entries = re.split(r"[|\s]+", environment.get("COURSIER_REPOSITORIES", ""))
    coursier = (entry for entry in entries if entry.startswith(("http://", "https://")))
    url = environment.get("MAVEN_MIRROR_URL") or next(coursier, None)
    if not url:
        url = _maven_settings(settings or Path.home() / ".m2" / "settings.xml")
    return (url or default).rstrip("/")


def _maven_settings(file: Path) -> str | None:
    try:
        root = ElementTree.parse(file).getroot()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except ElementTree.ParseError as error:
        raise StackError("jars", f"{file} is not valid XML: {error}", "mend it, or set MAVEN_MIRROR_URL") from error
    for mirror in root.findall(".//{*}mirror"):
        fields = {child.tag.rpartition("}")[2]: (child.text or "").strip() for child in mirror}
        names = [name.strip() for name in fields.get("mirrorOf", "").split(",")]
        covers = {"central", "*", "external:*", "external:http:*"} & set(names)
        if covers and "!central" not in names and fields.get("url"):
            return fields["url"]
    return None


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
    """Fetch what is missing. Raises StackError: naming the first file that could not be had, its URL and the reason."""
    import httpx
    import truststore

    lacking = missing(jars, cache)
    if not lacking:
        return
    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    timeout = httpx.Timeout(60, connect=15)
    with httpx.Client(verify=context, timeout=timeout, follow_redirects=True) as client, ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(_fetch, client, jar, cache / jar.path, f"{repository}/{jar.path}", progress) for jar in lacking]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True, wait=False)
            raise


def _fetch(client: httpx.Client, jar: Jar, target: Path, url: str, progress: Progress | None) -> None:
    import httpx
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential_jitter

    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    retrying = Retrying(
        stop=stop_after_attempt(_TRIES),
        wait=wait_exponential_jitter(multiplier=0.5, max=8),
        retry=retry_if_exception(_may_pass),
        reraise=True,
    )
    try:
        retrying(_stream, client, url, partial, progress)
    except httpx.HTTPError as error:
        partial.unlink(missing_ok=True)
        raise StackError("jars", f"{url}: {error or type(error).__name__}", _MIRROR_HINT) from error
    digest = sha256(partial)
    if digest != jar.sha256:
        partial.unlink()
        reason = f"{url} is not the locked file: sha256 {digest}, expected {jar.sha256}"
        raise StackError("jars", reason, _MIRROR_HINT)
    partial.replace(target)


_MIRROR_HINT = "./cdc up (behind a mirror of Maven Central: set MAVEN_MIRROR_URL)"


def _may_pass(error: BaseException) -> bool:
    """Whether another answer may come in a moment."""
    import httpx

    if not isinstance(error, httpx.HTTPStatusError):
        return isinstance(error, httpx.TransportError)
    return error.response.status_code in (408, 416, 425, 429) or error.response.status_code >= 500


def _stream(client: httpx.Client, url: str, partial: Path, progress: Progress | None) -> None:
    import httpx

    have = partial.stat().st_size if partial.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == 416:
            partial.unlink(missing_ok=True)
        if response.is_error:
            raise httpx.HTTPStatusError(f"HTTP {response.status_code}", request=response.request, response=response)
        resumed = response.status_code == 206
        with partial.open("ab" if resumed else "wb") as file:
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
    # Once in a process for each state of a file: the jars are 150 MB, which take 0.1 to 0.4 s.
    return sha256(file)


def sha256(file: Path) -> str:
    """The hash of a whole file, in hexadecimal digits."""
    with file.open("rb") as stream:
        digest = hashlib.sha256()
        for chunk in iter(lambda: stream.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def take_from_pyspark(jars: Iterable[Jar], cache: Path, folder: Path | None = None) -> list[Jar]:
    """Copy into the cache what is missing there and stands in `folder`, byte for byte; the jars that were taken."""
    folder = folder or pyspark_folder()
    taken = []
    for jar in missing(jars, cache):
        there, target = folder / jar.path.name, cache / jar.path
        if there.exists() and there.stat().st_size == jar.size and sha256(there) == jar.sha256:
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f"{target.name}.{os.getpid()}.part")
            shutil.copyfile(there, partial)
            partial.replace(target)
            taken.append(jar)
    return taken


def pyspark_folder() -> Path:
    """The folder of the jars in the pyspark wheel."""
    # Not by import: pyspark's takes half a second.
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return Path("/nonexistent")
    return Path(spec.submodule_search_locations[0]) / "jars"
