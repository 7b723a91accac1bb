"""Docstrings and comments name modules and their names as they are: `spark.values`, `cdc_assets.registry.kinds`."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"(?<![\w./\"'`-])((?:spark|cdc_assets)(?:\.\w+)+)(?![\w/<-])")
SETTINGS = re.compile(
    r"spark\.(?:authenticate|checkpoint|connect|delta|driver|executor|hadoop|jars|kafka|master|python|sql|task|ui)\b"
    r"|cdc_assets\.(?:CdcSource|anchor|bronze|lake|ledger|spark|unchanged)\b|cdc_assets\.\w+_$"
)
"""Settings of Spark's, headers and applications of ours, tables in a source, and the package in a wheel."""


def test_what_a_comment_names_is_there() -> None:
    found = {
        f"{file.relative_to(ROOT)}: {name}"
        for folder in ("cdc_assets", "spark", "benchmarks")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for name in names_of(file)
        if not SETTINGS.match(name) and not is_there(name)
    }
    assert sorted(found) == []


def test_a_package_that_is_gone_is_found() -> None:
    assert is_there("spark.values.types_page")
    assert is_there("cdc_assets.registry.kinds.KINDS")
    assert not is_there("spark.canonical")
    assert not is_there("cdc_assets.registry.kinds.nobody")


def names_of(file: Path) -> Iterator[str]:
    with io.StringIO(file.read_text(encoding="utf-8")) as text:
        for token in tokenize.generate_tokens(text.readline):
            if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
                yield from NAMED.findall(token.string)


def is_there(name: str) -> bool:
    """A package, a module, or what one defines."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:count])
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if file.exists():
            defined = rf"^\s*(?:(?:async )?def |class )?{parts[count]}\b\s*[:=(]" if count < len(parts) else ""
            return re.search(defined, file.read_text(encoding="utf-8"), re.MULTILINE) is not None
    return False
