"""Files on disk, and commits: `git` itself applies what we call patches."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from cdc_assets.capture.onboarding.onboarding_run import steps_of
from cdc_assets.cli.cdc_command import app
from cdc_assets.deploy.onboarding_commits import TablesToOnboard, onboarding_commits
from cdc_assets.deploy.rendered_files import apply, changes, render, with_list
from cdc_assets.registry.errors import RefusalError, ServiceError
from cdc_assets_tests.deploy.registry import deployment, shop


def on_disk(folder: Path) -> dict[str, str]:
    found = [file for file in folder.rglob("*") if file.is_file() and ".git/" not in str(file)]
    return {str(file.relative_to(folder)): file.read_text(encoding="utf-8") for file in found}


def test_written_once_then_nothing_differs_and_what_is_unwanted_goes(tmp_path: Path) -> None:
    files = render("strimzi", [shop()], deployment())
    apply(tmp_path, changes(tmp_path, "strimzi", files))
    assert on_disk(tmp_path) == with_list("strimzi", files)
    assert changes(tmp_path, "strimzi", files) == []
    path, text = next(iter(files.items()))
    (tmp_path / path).write_bytes(text.replace("\n", "\r\n").encode())
    assert [change.path for change in changes(tmp_path, "strimzi", files)] == [path]
    apply(tmp_path, changes(tmp_path, "strimzi", files))
    assert changes(tmp_path, "strimzi", files) == []
    (tmp_path / "strimzi/topics/theirs.yaml").write_text("theirs", encoding="utf-8")
    fewer = {path: text for path, text in files.items() if "/users/" not in path}
    found = changes(tmp_path, "strimzi", fewer)
    assert {change.action for change in found if "/users/" in change.path} == {"remove"}
    apply(tmp_path, found)
    assert set(on_disk(tmp_path)) == {*fewer, "strimzi/.cdc-render", "strimzi/topics/theirs.yaml"}


def test_what_is_not_ours_is_neither_overwritten_nor_removed(tmp_path: Path) -> None:
    files = render("strimzi", [shop()], deployment())
    path = next(iter(files))
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("theirs", encoding="utf-8")
    with pytest.raises(RefusalError, match=f"{path} is there, and was not written by"):
        changes(tmp_path, "strimzi", files)
    outside = tmp_path / "outside.yaml"
    outside.write_text("theirs", encoding="utf-8")
    (tmp_path / path).unlink()
    (tmp_path / "strimzi/.cdc-render").write_text("../outside.yaml\n", encoding="utf-8")
    apply(tmp_path, changes(tmp_path, "strimzi", files))
    assert outside.read_text(encoding="utf-8") == "theirs"


def test_check_fails_with_the_difference_and_only_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources, out, about = tmp_path / "sources", tmp_path / "out", tmp_path / "deployment.yaml"
    sources.mkdir()
    (sources / "shop.yaml").write_text(yaml.safe_dump(shop().model_dump(mode="json", exclude_unset=True)), encoding="utf-8")
    about.write_text(yaml.safe_dump(deployment().model_dump(mode="json", exclude_unset=True)), encoding="utf-8")
    monkeypatch.setenv("CDC_SOURCES", str(sources))
    verb = ["render", "--target", "strimzi", "--out", str(out), "--deployment", str(about)]
    missing = CliRunner().invoke(app, [*verb, "--check"])
    assert missing.exit_code == 1
    assert "+kind: KafkaConnector" in missing.stdout
    assert not out.exists()
    made = CliRunner().invoke(app, verb)
    assert (made.exit_code, made.stderr.split()[-1]) == (0, "changed")
    same = CliRunner().invoke(app, [*verb, "--check"])
    assert (same.exit_code, same.stdout, same.stderr.split()[-1]) == (0, "", "differ")
    file = out / "strimzi/connectors/shop-capture.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("plugin.name: pgoutput", "plugin.name: wal2json"), encoding="utf-8")
    edited = CliRunner().invoke(app, [*verb, "--check"])
    assert edited.exit_code == 1
    assert "-    plugin.name: wal2json\n+    plugin.name: pgoutput\n" in edited.stdout


@pytest.mark.slow
@pytest.mark.parametrize("route", ["incremental", "temporary"])
def test_git_applies_the_commits_of_an_onboarding_in_order(tmp_path: Path, route: str) -> None:
    platform = deployment()
    before = with_list("strimzi", render("strimzi", [shop(("public.orders",))], platform))
    after = [shop(("public.orders", "public.lines"))]
    wanted = TablesToOnboard("shop", ["public.lines"], route, anchor=7)  # type: ignore[arg-type]
    commits = onboarding_commits(after, platform, wanted)
    for path, text in before.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    seen = []
    for commit in commits:
        subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=commit.patch.encode(), check=True)
        assert on_disk(tmp_path) == dict(commit.files)
        connectors = {p.stem: yaml.safe_load(p.read_text()) for p in (tmp_path / "strimzi/connectors").glob("*.yaml")}
        seen.append({n: (c["spec"]["state"], c["spec"]["config"]["table.include.list"]) for n, c in connectors.items()})
    orders, lines, signal = (rf"(?-i:{name})" for name in (r"public\.orders", r"public\.lines", r"cdc_assets\.signal_shop"))
    old = {"shop-capture": ("running", f"{orders},{signal}")}
    new = {"shop-capture": ("running", f"{orders},{lines},{signal}")}
    stopped = {"shop-capture": ("stopped", old["shop-capture"][1])}
    beside = [{**new, "shop-capture-onboard": (state, lines)} for state in ("running", "stopped")]
    assert seen == ([old, new] if route == "incremental" else [old, stopped, new, *beside, new])
    assert [c.step for c in commits] == [s.name for s in steps_of(route, watched=True) if s.name in {c.step for c in commits}]  # type: ignore[arg-type]
    assert on_disk(tmp_path) == with_list("strimzi", render("strimzi", after, platform))
    assert "shop.public.lines" in commits[0].patch


@pytest.mark.slow
@pytest.mark.parametrize("route", ["incremental", "temporary"])
def test_a_dry_run_prints_every_commit_and_git_applies_them_in_the_repositorys_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    verb = on_git(tmp_path, monkeypatch)
    before = on_disk(tmp_path)
    dry = ["onboard", "shop", "public.lines", "--watch", "--dry-run", "--route", route, *verb]
    plan = CliRunner().invoke(app, dry)
    assert plan.exit_code == 0, plan.output
    assert on_disk(tmp_path) == before
    steps = json.loads(CliRunner().invoke(app, [*dry, "-o", "json"]).stdout)
    commits = [step["commit"] for step in steps if "commit" in step]
    assert len(commits) == (2 if route == "incremental" else 6)
    # The anchor is in the file that the fourth adds and the sixth takes away.
    later = [number for number, each in enumerate(commits, 1) if each["later"]]
    assert later == ([] if route == "incremental" else [4, 6])
    assert plan.stdout.count("POSITION-OF-THE-STOP is the log position") == len(later)
    for each in commits:
        assert each["patch"] in plan.stdout
        assert f"{each['title']}\n# then: {each['then']}\n" in plan.stdout
        subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=each["patch"].encode(), check=True)
    after = CliRunner().invoke(app, ["render", "--target", "strimzi", "--out", str(tmp_path / "deploy"), *verb, "--check"])
    assert (after.exit_code, after.stdout) == (0, "")


def test_patches_name_the_folder_that_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dry = ["onboard", "shop", "public.lines", "--watch", "--dry-run", *on_git(tmp_path, monkeypatch)]
    assert "+++ b/deploy/strimzi/connectors/shop-capture.yaml" in CliRunner().invoke(app, dry).stdout
    assert "+++ b/a/b/strimzi/connectors/shop-capture.yaml" in CliRunner().invoke(app, [*dry, "--out", "./a/b/"]).stdout
    assert "+++ b/strimzi/connectors/shop-capture.yaml" in CliRunner().invoke(app, [*dry, "--out", "."]).stdout
    assert "a folder of the repository" in CliRunner().invoke(app, [*dry, "--out", "/srv/deploy"]).output


def on_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A repository with what is rendered of `public.orders` in `deploy`; the registry already has `public.lines` too."""
    (folder / "sources").mkdir()
    monkeypatch.setenv("CDC_SOURCES", str(folder / "sources"))
    monkeypatch.setenv("CDC_HOME", str(folder / ".git" / "home"))
    declared, about = shop(("public.orders", "public.lines")), folder / "deployment.yaml"
    (folder / "sources/shop.yaml").write_text(
        yaml.safe_dump(declared.model_dump(mode="json", exclude_unset=True)), encoding="utf-8"
    )
    about.write_text(yaml.safe_dump(deployment().model_dump(mode="json", exclude_unset=True)), encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    apply(folder / "deploy", changes(folder / "deploy", "strimzi", render("strimzi", [shop(("public.orders",))], deployment())))
    return ["--deployment", str(about)]


def test_a_name_that_strimzi_changes_is_told_and_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verb = on_git(tmp_path, monkeypatch)
    file = tmp_path / "sources/shop.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("source: shop", "source: my_shop"), encoding="utf-8")
    rendered = CliRunner().invoke(app, ["render", "--target", "strimzi", "--out", str(tmp_path / "other"), *verb])
    assert rendered.exit_code == 0
    assert "my_shop-capture: Kubernetes takes no such name, Strimzi calls this connector my-shop-capture-" in rendered.stderr
    watched = ["onboard", "my_shop", "public.lines", "--watch", *verb]
    refused = CliRunner().invoke(app, watched)
    assert isinstance(refused.exception, RefusalError)
    assert "look for my_shop-capture, and do not know it, unless the source declares managed_by: gitops" in str(refused.exception)
    assert "apply the commits of --dry-run by hand" in str(refused.exception)
    assert CliRunner().invoke(app, [*watched, "--dry-run"]).exit_code == 0


def test_a_source_of_git_is_watched_under_the_name_that_strimzi_gives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verb = on_git(tmp_path, monkeypatch)
    file = tmp_path / "sources/shop.yaml"
    file.write_text(
        file.read_text(encoding="utf-8").replace("source: shop", "source: my_shop\nmanaged_by: gitops"), encoding="utf-8"
    )
    rendered = CliRunner().invoke(app, ["render", "--target", "strimzi", "--out", str(tmp_path / "other"), *verb])
    assert "strimzi/connectors/my-shop-capture-acf532cc.yaml" in rendered.stdout
    assert "my-shop" not in rendered.stderr
    watched = ["onboard", "my_shop", "public.lines", "--watch", *verb]
    planned = CliRunner().invoke(app, [*watched, "--route", "temporary", "--dry-run"])
    assert "my-shop-capture-acf532cc-onboard is STOPPED, and its offsets are reset" in planned.stdout
    refused = CliRunner().invoke(app, ["onboard", "my_shop", "public.lines"])
    assert isinstance(refused.exception, ServiceError)
    assert "managed_by: gitops, nothing was written; cdc onboard my_shop TABLE… --watch" in str(refused.exception)


def test_a_deployment_with_another_mirror_than_the_registry_is_refused() -> None:
    with pytest.raises(RefusalError, match="source shop: mirror.resource is not the deployment's `mirror: connector`"):
        render("strimzi", [shop(managed_by="gitops")], deployment(mirror="connector"))
    files = render("strimzi", [shop(managed_by="gitops", mirror={"resource": "connector"})], deployment(mirror="connector"))
    assert "strimzi/mirror/shop-mirror.yaml" in files


def test_what_is_in_the_way_is_told(tmp_path: Path) -> None:
    files = render("strimzi", [shop()], deployment())
    file = tmp_path / "file"
    file.write_text("a file", encoding="utf-8")
    with pytest.raises(RefusalError, match=rf"{file}.*: Not a directory: name a folder by --out"):
        changes(file, "strimzi", files)
    (tmp_path / "out" / next(iter(files))).mkdir(parents=True)
    with pytest.raises(RefusalError, match=f"{next(iter(files))}: Is a directory"):
        changes(tmp_path / "out", "strimzi", files)


def test_a_hand_edited_file_is_shown_as_git_has_it(tmp_path: Path) -> None:
    files = render("strimzi", [shop()], deployment())
    apply(tmp_path, changes(tmp_path, "strimzi", files))
    path = "strimzi/connectors/shop-capture.yaml"
    (tmp_path / path).write_bytes((tmp_path / path).read_bytes().rstrip(b"\n") + "\n# mine \u2028, no line feed".encode())
    (change,) = changes(tmp_path, "strimzi", files)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=change.diff().encode(), check=True)
    assert changes(tmp_path, "strimzi", files) == []
    (tmp_path / path).write_bytes(b"\xff\xfe")
    assert [each.action for each in changes(tmp_path, "strimzi", files)] == ["change"]


def test_a_render_that_ends_in_its_midst_forgets_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(tmp_path, changes(tmp_path, "strimzi", render("strimzi", [shop()], deployment())))
    wanted = render("strimzi", [shop()], deployment(authentication="none", mirror="connector"))
    found = changes(tmp_path, "strimzi", wanted)
    monkeypatch.setattr(Path, "unlink", lambda _: (_ for _ in ()).throw(PermissionError(13, "Permission denied", "x")))
    with pytest.raises(RefusalError, match="x: Permission denied"):
        apply(tmp_path, found)
    monkeypatch.undo()
    apply(tmp_path, changes(tmp_path, "strimzi", wanted))
    assert on_disk(tmp_path) == with_list("strimzi", wanted)
