"""What a change touches, by the imports of this tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import grimp
import pytest

from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets_tests.run import changed

pytestmark = pytest.mark.slow


def test_a_module_touches_who_imports_it_near_or_far() -> None:
    tests, others = changed.touched(["spark/specs.py"])
    assert "cdc_assets_tests/spark/silver/test_silver.py" in tests
    assert "cdc_assets_tests/proof/test_two_step.py" in tests
    assert "cdc_assets_tests/run/test_changed.py" not in tests
    assert others == []


def test_a_test_file_touches_itself_and_support_what_a_conftest_gives_of_it() -> None:
    own = "cdc_assets_tests/run/test_changed.py"
    assert changed.touched([own]) == ({own}, [])
    tests, _ = changed.touched(["cdc_assets_tests/recovery/conftest.py"])
    below = Path(changed.ROOT, "cdc_assets_tests/recovery").glob("test_*.py")
    assert tests >= {f"cdc_assets_tests/recovery/{file.name}" for file in below}
    assert "cdc_assets_tests/proof/test_two_step.py" not in tests


def test_what_only_text_names_touches_the_tests_of_its_folder() -> None:
    graph = grimp.ImportGraph()
    for module in ("cdc_assets", "cdc_assets.rows", "cdc_assets.rows.named", "cdc_assets.rows.imported", "cdc_assets_tests"):
        graph.add_module(module)
    graph.add_import(importer="cdc_assets_tests.test_rows", imported="cdc_assets.rows.imported")
    graph.add_import(importer="cdc_assets_tests.test_other", imported="cdc_assets.other")
    assert changed.tests_of(graph, "cdc_assets.rows.named") == {"cdc_assets_tests.test_rows"}
    assert changed.tests_of(graph, "cdc_assets.other") == {"cdc_assets_tests.test_other"}


def test_what_no_import_tells_of_is_named_and_the_pages_are_read() -> None:
    tests, others = changed.touched(["docs/tutorial.md", "cdc"])
    assert others == ["docs/tutorial.md", "cdc"]
    assert tests == {
        f"cdc_assets_tests/docs/{file.name}" for file in Path(changed.ROOT, "cdc_assets_tests/docs").glob("test_*.py")
    }


def test_git_is_asked_what_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    with pytest.raises(CdcAssetsError, match="--changed asks git what has changed, and it says: .*[nN]ot a git repository"):
        changed.changed_files()
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "one"]):
        (tmp_path / "kept.py").write_text("1")
        (tmp_path / "altered.py").write_text("1")
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "altered.py").write_text("2")
    (tmp_path / "new.py").write_text("")
    assert changed.changed_files() == ["altered.py", "new.py"]
