"""What a page "add a …" says in words, done on a copy of the whole clone, its tests too."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from typing_extensions import override

from cdc_assets_tests.support.followed_page import ROOT, Copy

_NO_PART = shutil.ignore_patterns(".git", ".venv", ".cdc", ".*_cache")
_BUILDERS = "cdc_assets/defs/source_chain.py"


class WholeCopy(Copy):
    """The clone without its git and its environment. A page is followed to its end, with what it tells to remove."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        shutil.copytree(ROOT, folder, dirs_exist_ok=True, ignore=_NO_PART)

    @override
    def follow(self, page: str) -> None:
        super().follow(page)
        self._import_row()
        self._list_checks()
        self._list_stores()
        for names in re.findall(r"^rm -r (.*)$", self.text, re.MULTILINE):
            for path in (self.root / name for name in names.split()):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for module, file in re.findall(r"^\.venv/bin/python -m (\S+) > (\S+)$", self.text, re.MULTILINE):
            (self.root / file).write_text(self.python("-m", module, CDC_SOURCES=""), encoding="utf-8")

    def _import_row(self) -> None:
        for statement in re.findall(r"^```python\n(from .*)\n```", self.text, re.MULTILINE):
            self._change(_BUILDERS, r"^(?=from cdc_assets\.defs\.lake_assets )", f"{statement}\n")

    def _list_checks(self) -> None:
        """The checks of whole chains, as two tests have them."""
        said = r"In `(\w+\.py)` put `(\w+, )` first on the lines? `checks:` of `(\w+)`(?: and\s+`(\w+)`)?"
        for file, word, *assets in re.findall(said, self.text):
            for asset in filter(None, assets):
                self._change(f"cdc_assets_tests/defs/{file}", rf"(/{asset} <- .*\n  checks: )", rf"\g<1>{word}")
        for more, before in re.findall(r"add (\d+) to the number in\s+`(assert [^`]*) …`", self.text):
            file = "cdc_assets_tests/defs/test_definitions.py"
            place = rf"({re.escape(before)} )(\d+)$"
            found = re.search(place, (self.root / file).read_text(encoding="utf-8"), re.MULTILINE)
            assert found is not None, before
            self._change(file, place, rf"\g<1>{int(found[2]) + int(more)}")

    def _list_stores(self) -> None:
        for file, kind in re.findall(r"In\s+`(\S+)` add `\"(\w+)\"` to the end of `_IN_FOLDERS`", self.text):
            self._change(file, r"^(_IN_FOLDERS = .*?),?\)$", rf'\g<1>, "{kind}")')

    def _change(self, file: str, place: str, to: str) -> None:
        path = self.root / file
        after, count = re.subn(place, to, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert count == 1, (file, place)
        path.write_text(after, encoding="utf-8")
