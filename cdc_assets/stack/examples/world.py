"""Countries and cities of GeoNames: 252 countries, about 34,000 cities, 30 scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cdc_assets.stack.examples import geonames, owner
from cdc_assets.stack.site import Site

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


def load(site: Site) -> None:
    """Create and fill the tables, in one transaction."""
    import psycopg

    login = owner.create(site, "world")
    with psycopg.connect(**login) as connection:  # type: ignore[arg-type]
        row = connection.execute("SELECT to_regclass('public.city') IS NOT NULL").fetchone()
        if row and row[0]:
            return
        connection.execute(_TABLES)
        for table, columns, rows in (("country", _COUNTRY, _countries()), ("city", _CITY, _cities())):
            with connection.cursor().copy(f"COPY public.{table} ({columns}) FROM STDIN") as copy:
                for values in rows:
                    copy.write_row(values)


def _countries() -> Iterator[tuple[Any, ...]]:
    for c in geonames.read("countries").values():
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
    for c in geonames.read("cities15000").values():
        yield (*(c[key] for key in keys), [name for name in c["alternatenames"] if name])


def _list(text: str) -> list[str]:
    return [part for part in text.split(",") if part]
