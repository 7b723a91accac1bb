"""What an onboarding keeps and edits: the registry file with its comments, and its own journal."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.capture.onboarding import onboarding_run
from cdc_assets.capture.onboarding.onboarding_run import ROUTES
from cdc_assets.capture.onboarding.onboarding_state import Journal
from cdc_assets.capture.onboarding.registry_entries import add_tables, remove_tables
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.jobs_on_demand import build_onboarding_jobs
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry.errors import RefusalError, RegistryError
from cdc_assets.registry.loader import load_source

HEAD = """\
# the shop, by hand
source: shop   # its name
database: {kind: postgresql, host: db, dbname: "shop", user: u, password: {secret: s}}
"""
INDENTED = f"""{HEAD}tables:
  # money
  - {{name: public.orders, freshness: {{fail_after: 15m}}}}   # the main one
  - name: public.lines
    owners: ["team:a"]
# the end
"""
FLUSH = f"""{HEAD}tables:
- name: 'public.orders'
topics: {{partitions: 3}}
"""
SPACED = """\
# before the document
---
source:   shop  # four blanks, and blanks in braces, as some editors have them
database: { kind: postgresql, host: db, dbname: shop, user: u, password: { secret: s } }
topics:
    partitions: 3
tables:
    -   name: public.orders
        owners: [ "team:a",
                  "team:b" ]   # two

# the end
"""
ALIASED = f"""{HEAD}owners: &o ["team:a"]
tables:
- {{name: public.orders, owners: *o}}
- &b {{name: public.b, owners: *o}}
"""
IN_A_ROW = f"""{HEAD}tables: [ {{name: public.orders}},   # one
  {{name: public.b}}, ]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path / "sources"))
    (tmp_path / "sources").mkdir()
    return tmp_path / "sources" / "shop.yaml"


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("text", [INDENTED, FLUSH, SPACED, ALIASED], ids=["indented", "flush", "spaced", "aliased"])
def test_only_the_entry_is_added_and_taken_out_again(file: Path, text: str, newline: str) -> None:
    was = text.replace("\n", newline).encode()
    file.write_bytes(was)
    assert add_tables(file, ["public.new", 'odd."T a"', "public.new"]) == ["public.new", 'odd."T a"']
    before, edited = was.splitlines(keepends=True), file.read_bytes().splitlines(keepends=True)
    new = [line for line in edited if line not in before]
    assert (len(new), [line for line in edited if line not in new]) == (2, before)
    assert all(line.endswith(newline.encode()) for line in new)
    assert [table.name for table in load_source(file).tables][-2:] == ["public.new", 'odd."T a"']
    assert add_tables(file, ["public.new"]) == []
    assert remove_tables(file, ["public.new", 'odd."T a"']) == ["public.new", 'odd."T a"']
    assert file.read_bytes() == was


def test_a_list_in_a_row_and_a_last_line_without_an_end(file: Path) -> None:
    file.write_text(IN_A_ROW)
    add_tables(file, ["public.new"])
    assert "\n  {name: public.b}, {name: public.new}, ]\n" in file.read_text()
    assert remove_tables(file, ["public.new"]) == ["public.new"]
    assert file.read_text() == IN_A_ROW
    assert remove_tables(file, ["public.orders"]) == ["public.orders"]
    assert [table.name for table in load_source(file).tables] == ["public.b"]
    file.write_text(INDENTED.removesuffix("# the end\n").rstrip())
    add_tables(file, ["public.new"])
    assert [table.name for table in load_source(file).tables] == ["public.orders", "public.lines", "public.new"]


@pytest.mark.parametrize(
    "name",
    ['public."a.b"', 'public."sp ace"', "public.$x", "public.naïve", "public.null", 'public."say ""hi"" so"', 'p."a: b"', "p.#a"],
)
def test_a_name_is_what_was_asked_for(file: Path, name: str) -> None:
    file.write_text(FLUSH)
    assert add_tables(file, [name]) == [name]
    assert [table.name for table in load_source(file).tables] == ["public.orders", name]


def test_a_name_in_quotes_that_it_does_not_need_is_the_same(file: Path) -> None:
    file.write_text(FLUSH.replace("'public.orders'", '\'"public"."orders"\''))
    assert add_tables(file, ["public.orders"]) == []


def test_what_a_link_leads_to_is_edited(file: Path) -> None:
    of_git = file.parents[1] / "shop.yaml"
    of_git.write_text(FLUSH)
    file.symlink_to(of_git)
    add_tables(file, ["public.new"])
    assert file.is_symlink()
    assert "public.new" in of_git.read_text()


def test_a_file_that_cannot_be_edited_is_told(file: Path) -> None:
    text = f"{ALIASED}- {{<<: *b, name: public.c}}\n"
    file.write_text(text)
    with pytest.raises(RefusalError, match="take public.b out of it by hand, then give the same command again"):
        remove_tables(file, ["public.b"])
    assert file.read_text() == text


def test_a_file_that_would_not_be_valid_is_left_as_it_was(file: Path) -> None:
    file.write_text(FLUSH)
    with pytest.raises(RegistryError):
        add_tables(file, ["other.orders", "public.other__orders"])
    with pytest.raises(RefusalError, match="all of the source's tables"):
        remove_tables(file, ["public.orders"])
    assert file.read_text() == FLUSH
    assert [f.name for f in file.parent.iterdir()] == ["shop.yaml"]


def test_one_at_a_time_and_the_same_again_goes_on(file: Path) -> None:
    file.write_text(FLUSH)
    first = onboarding_run.begin("shop", ["public.a", "public.b"], "incremental")
    assert first is not None
    again = onboarding_run.begin("shop", ["public.a", "public.b"], "incremental")
    assert again is not None
    assert again.id == first.id
    with pytest.raises(RefusalError, match="incremental onboarding of public.a, public.b .* --resume, or --rollback"):
        onboarding_run.begin("shop", ["public.c"], "incremental")
    assert onboarding_run.finish("shop").state == "done"
    add_tables(file, ["public.a", "public.b"])
    assert onboarding_run.begin("shop", ["public.a"], "blocking") is None
    remove_tables(file, ["public.a"])
    assert onboarding_run.begin("shop", ["public.a"], "blocking") is not None
    onboarding_run.finish("shop")
    add_tables(file, ["public.a"])
    assert onboarding_run.begin("shop", ["public.a"], "blocking", again=True) is not None
    assert set(Journal.of("shop").finished) == {"public.a", "public.b"}


def test_what_is_taken_out_halfway_is_not_said_to_be_taken_back(file: Path) -> None:
    """The connector does not have the table any more: what changes in it is in no event."""
    file.write_text(INDENTED)
    for done, current in (({}, None), ({}, "known"), ({"known": {}}, None)):
        onboarding_run.begin("shop", ["public.lines"], "offboard")
        journal = Journal.of("shop")
        assert journal.running is not None
        journal.running = replace(journal.running, done=done, current=current)
        journal.save()
        assert onboarding_run.roll_back(Platform(), "shop", print).state == "rolled back"
    for done, current in (({"known": {}}, "connector"), ({"known": {}, "connector": {}}, None)):
        onboarding_run.begin("shop", ["public.lines"], "offboard")
        journal = Journal.of("shop")
        assert journal.running is not None
        journal.running = replace(journal.running, done=done, current=current)
        journal.save()
        with pytest.raises(RefusalError, match="cdc offboard shop --resume, then cdc onboard shop public.lines"):
            onboarding_run.roll_back(Platform(), "shop", print)
        with pytest.raises(RefusalError, match=r"the offboarding of .* connector|between steps: cdc offboard shop --resume$"):
            onboarding_run.begin("shop", ["public.orders"], "incremental")
    assert Journal.of("shop").running is not None


@pytest.mark.slow
def test_two_who_begin_at_once_are_one_after_the_other(file: Path) -> None:
    file.write_text(FLUSH)

    def begin(table: str) -> str:
        try:
            return str(onboarding_run.begin("shop", [table], "incremental"))
        except RefusalError as error:
            return str(error)

    for _ in range(20):
        with ThreadPoolExecutor(4) as pool:
            told = [*pool.map(begin, [f"public.t{n}" for n in range(4)])]
        assert sum("is not done and stands at" in text for text in told) == 3, told
        onboarding_run.finish("shop")


@pytest.mark.parametrize(("source", "table"), [("nosuch", "public.a"), ("shop", "a"), ("shop", "a.b.c")])
def test_what_is_no_table_is_refused(file: Path, source: str, table: str) -> None:
    file.write_text(FLUSH)
    with pytest.raises(RefusalError):
        onboarding_run.begin(source, [table], "incremental")
    assert Journal.of(source).running is None


def test_the_jobs_have_an_op_per_step() -> None:
    for job, (route, steps) in zip(build_onboarding_jobs(), ROUTES.items(), strict=True):
        names = [node.name.removeprefix(f"{job.name}_") for node in job.nodes_in_topological_order]
        assert names == ["begin", *(step.name.replace("-", "_") for step in steps), "finish"], route


def test_a_run_of_the_job_shows_what_each_step_found(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(FLUSH)
    steps = tuple(replace(step, run=lambda work, name=step.name: {"found": name}) for step in ROUTES["offboard"])
    monkeypatch.setitem(ROUTES, "offboard", steps)
    job = next(job for job in build_onboarding_jobs() if job.name == "offboard")
    config = {"ops": {"begin": {"config": {"source": "shop", "tables": ["public.orders"]}}}}
    done = job.execute_in_process(run_config=config, resources={"platform": PlatformResource()})
    outputs = done.filter_events(lambda event: event.is_successful_output and event.node_name == "known")
    assert [event.step_output_data.metadata["cdc/found"].value for event in outputs] == ["known"]
    assert Journal.of("shop").running is None


@pytest.mark.parametrize("job", build_onboarding_jobs(), ids=lambda job: job.name)
def test_the_boxes_of_a_job_are_called_by_their_steps(job: dg.JobDefinition) -> None:
    """Dagster shows some 15 characters of a name: with the job's before it all of them looked alike."""
    boxes = {node.name for node in job.graph.nodes}
    route = job.name.removeprefix("onboard_")
    assert boxes == {"begin", "finish", *(step.name.replace("-", "_") for step in ROUTES[route])}  # type: ignore[index]
    assert max(len(box) for box in boxes) < 16
