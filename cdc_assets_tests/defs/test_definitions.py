"""What Dagster is told: keys, order, groups, kinds, owners, checks; loading it needs no service and little time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.reading.lake_tables import lake_tables
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.names import LAYERS
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.defs.conftest import SOURCE

ROOT = Path(__file__).parents[2]

CHAIN = """\
connector/shop/connector_shop <- nothing [debezium,kafkaconnect,postgresql]
  checks: connector_running, events_flow, preflight
topic/shop/topic_lines <- connector/shop/connector_shop [kafka]
  checks: none
topic/shop/topic_orders <- connector/shop/connector_shop [kafka]
  checks: none
mirror/shop/mirror_lines <- topic/shop/topic_lines [kafka,mirrormaker]
  checks: nothing_lost
mirror/shop/mirror_orders <- topic/shop/topic_orders [kafka,mirrormaker]
  checks: nothing_lost
bronze/shop/bronze_lines <- mirror/shop/mirror_lines [bronze,delta,spark]
  checks: record_parity
bronze/shop/bronze_orders <- mirror/shop/mirror_orders [bronze,delta,spark]
  checks: record_parity
silver/shop/silver_lines <- bronze/shop/bronze_lines [delta,silver,spark]
  checks: fresh, quarantine_empty, reconciled, schema
silver/shop/silver_orders <- bronze/shop/bronze_orders [delta,silver,spark]
  checks: fresh, quarantine_empty, reconciled, schema
backup/shop/backup_lines <- bronze/shop/bronze_lines [s3]
  checks: manifest_parity
backup/shop/backup_orders <- bronze/shop/bronze_orders [s3]
  checks: manifest_parity
ledger/shop/ledger_lines <- silver/shop/silver_lines [delta,ledger,spark]
  checks: bronze_fates, late_events, mirror_bronze, topic_mirror
ledger/shop/ledger_orders <- silver/shop/silver_orders [delta,ledger,spark]
  checks: bronze_fates, late_events, mirror_bronze, topic_mirror
maintenance/shop/maintenance_shop <- silver/shop/silver_lines, silver/shop/silver_orders [delta]
  checks: maintained
"""


def definitions(source: Source) -> dg.Definitions:
    return dg.Definitions.merge(build_source_defs(source), dg.Definitions(resources={"platform": PlatformResource()}))


def test_the_chain_is_as_drawn(source: Source) -> None:
    graph = definitions(source).get_repository_def().asset_graph
    order = {
        layer: at
        for at, layer in enumerate(("connector", "topic", "mirror", "bronze", "silver", "backup", "ledger", "maintenance"))
    }
    lines = []
    for key in sorted(graph.get_all_asset_keys(), key=lambda key: (order[key.path[0]], key.path)):
        node = graph.get(key)
        parents = ", ".join(sorted(parent.to_user_string() for parent in node.parent_keys)) or "nothing"
        checks = ", ".join(sorted(check.name for check in node.check_keys)) or "none"
        lines.append(f"{key.to_user_string()} <- {parents} [{','.join(sorted(node.kinds))}]\n  checks: {checks}\n")
        assert node.group_name == "shop"
        assert list(node.owners) == ["team:data"]
    assert "".join(lines) == CHAIN


def test_a_box_of_the_graph_says_its_layer_and_its_table(source: Source) -> None:
    """Dagster writes the last part of a key into the box; layer, source and table can each be selected all the same."""
    sources = [*load_sources(ROOT / "cdc_assets" / "sources"), source]
    chains = dg.Definitions.merge(definitions(source), *(build_source_defs(each) for each in sources[:-1]))
    graph = chains.resolve_asset_graph()
    boxes = {key: (graph.get(key).group_name, key.path[-1]) for key in graph.get_all_asset_keys()}
    assert len(set(boxes.values())) == len(boxes) > 40
    for key, (_, box) in boxes.items():
        tags = graph.get(key).tags
        assert box == f"{tags['layer']}_{tags.get('table', tags['source'])}"
        assert key.path[:2] == [tags["layer"], tags["source"]]

    def selected(text: str) -> set[dg.AssetKey]:
        return dg.AssetSelection.from_string(text).resolve(graph)

    assert selected('key:"silver/*"') == selected('tag:"layer"="silver"') == {key for key in boxes if key.path[0] == "silver"}
    assert selected('key:"*/world/*"') == selected('group:"world"') == {key for key in boxes if key.path[1] == "world"}
    city = {dg.AssetKey([layer, "world", f"{layer}_city"]) for layer in LAYERS if layer != "connector"}
    assert selected('key:"*/world/*_city"') == selected('tag:"table"="city"') == city


def test_every_check_blocks_so_that_a_run_in_ci_fails(source: Source) -> None:
    graph = definitions(source).get_repository_def().asset_graph
    assert len(graph.asset_check_keys) == 26
    assert all(graph.get_check_spec(key).blocking for key in graph.asset_check_keys)


def test_a_step_has_the_checks_of_one_link_and_so_is_never_split(source: Source) -> None:
    layer = definitions(source).resolve_implicit_global_asset_job_def().asset_layer
    links: dict[str, set[str]] = {}
    for key in layer.asset_graph.asset_check_keys:
        step = layer.get_op_output_handle(key).node_handle.name
        links.setdefault(step, set()).add(key.asset_key.path[0])
    assert {step: found for step, found in links.items() if len(found) > 1} == {}
    assert {f"cdc_checks_{link}_shop" for link in ("connector", "bronze", "silver", "backup")} <= set(links)


def test_assets_and_ops_of_a_project_may_have_the_names_that_ours_suggest(source: Source) -> None:
    ours = definitions(source).resolve_implicit_global_asset_job_def().nodes
    suggested = sorted(node.name.removeprefix("cdc_") for node in ours if "__" not in node.name)
    assert {"bronze_shop", "silver_shop", "checks_silver_shop", "count_shop", "quarantine_shop"} <= set(suggested)
    half = len(suggested) // 2
    assets = [dg.asset(name=name)(lambda: None) for name in suggested[:half]]

    @dg.job
    def theirs() -> None:
        for name in suggested[half:]:
            dg.op(name=name)(lambda: None)()

    both = dg.Definitions.merge(definitions(source), dg.Definitions(assets=assets, jobs=[theirs]))
    dg.Definitions.validate_loadable(both)
    assert both.get_repository_def().asset_graph.has(dg.AssetKey(suggested[0]))


def test_silver_links_to_the_pages_of_its_chain(source: Source) -> None:
    graph = definitions(source).get_repository_def().asset_graph
    said = graph.get(dg.AssetKey(["silver", "shop", "silver_orders"])).metadata
    linked = [said[f"cdc/page_of_{layer}"].asset_key for layer in ("connector", "topic", "bronze", "ledger")]
    assert [key.path[-1] for key in linked] == ["connector_shop", "topic_orders", "bronze_orders", "ledger_orders"]
    assert {*linked} <= graph.get_all_asset_keys()


def test_silver_says_where_it_lies_and_what_readers_call_it(source: Source) -> None:
    graph = definitions(source).get_repository_def().asset_graph
    node = graph.get(dg.AssetKey(["silver", "shop", "silver_orders"]))
    assert node.freshness_policy_or_from_metadata is None, "it counts materializations alone: the check fresh tells"
    assert node.metadata["dagster/table_name"] == "silver.shop.orders"
    assert node.metadata["cdc/name_in_spark"] == "silver_shop.orders"
    assert str(node.metadata["dagster/uri"]).endswith("/silver/shop/orders")


def test_the_name_on_a_page_is_the_one_that_readers_take(tmp_path: Path) -> None:
    """`cdc sql` and notebooks; a name that is no plain word of SQL stands in quotes."""
    source = Source.model_validate({**SOURCE, "tables": [{"name": "public.orders"}, {"name": "public.2024 lines"}]})
    graph = definitions(source).get_repository_def().asset_graph
    readers = {table.name for table in lake_tables([source], str(tmp_path))}
    told = {
        key.path[-1]: graph.get(key).metadata["dagster/table_name"]
        for key in graph.get_all_asset_keys()
        if key.path[0] in ("bronze", "silver")
    }
    assert len(told) == 4
    assert set(told.values()) <= readers
    assert told["silver_orders"] == "silver.shop.orders"
    assert told["bronze_orders"] == "bronze.shop.orders"
    assert [name for name in told.values() if '"' in name], told


def load_in_a_new_process(code: str) -> tuple[str, float]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CDC_", "DAGSTER_"))}
    started = time.monotonic()
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip(), time.monotonic() - started


def test_definitions_load_without_services_and_without_heavy_libraries() -> None:
    code = (
        "import sys, cdc_assets.definitions as d; d.defs.get_repository_def().load_all_definitions();"
        "print([m for m in ('pyspark', 'boto3', 'google.cloud.storage', 'confluent_kafka', 'psycopg', 'deltalake', 'pyarrow')"
        " if m in sys.modules])"
    )
    output, _ = load_in_a_new_process(code)
    assert output == "[]"


def test_definitions_of_every_kind_load_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = {
        "mysql": "host: db",
        "sqlserver": "host: db, dbname: shop",
        "oracle": "host: db, dbname: ORCL",
        "mongodb": "hosts: 'db:27017'",
    }
    for kind, server in servers.items():
        key = "_id" if kind == "mongodb" else "id"
        (tmp_path / f"{kind}.yaml").write_text(
            f"source: {kind}\ndatabase: {{kind: {kind}, {server}, user: cdc, password: {{secret: {kind}}}}}\n"
            f"tables: [{{name: shop.orders, keys: [{key}], columns: {{{key}: text not null}}}}]\n"
        )
    # An import of a module that is None in sys.modules fails.
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('pymysql', 'pytds', 'oracledb', 'pymongo', 'bson', 'psycopg')));"
        f"import os; os.environ['CDC_SOURCES'] = {str(tmp_path)!r};"
        "import cdc_assets.definitions as d; graph = d.defs.get_repository_def().asset_graph;"
        "print(sorted(k.asset_key.path[1] for k in graph.asset_check_keys if k.name == 'preflight'))"
    )
    assert load_in_a_new_process(code)[0] == str(sorted(servers))


def test_spark_and_registry_know_no_dagster() -> None:
    code = (
        "import sys, pkgutil, importlib, spark, cdc_assets.registry;"
        "[importlib.import_module(m.name) for p in (spark, cdc_assets.registry)"
        " for m in pkgutil.walk_packages(p.__path__, p.__name__ + '.') if not m.name.endswith('__main__')];"
        "print(sorted(m for m in sys.modules if m.split('.')[0] == 'dagster'),"
        " sorted(m for m in sys.modules if m.startswith('cdc_assets') and 'registry' not in m))"
    )
    output, _ = load_in_a_new_process(code)
    assert output.startswith("[] ")
    assert "cdc_assets.defs" not in output
    assert "cdc_assets.clients" not in output


def test_the_component_door_gives_the_same_chain(source: Source, tmp_path: Path) -> None:
    from dagster.components.testing import create_defs_folder_sandbox

    from cdc_assets.components import CdcSource

    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=CdcSource,
            defs_path="shop",
            defs_yaml_contents={
                "type": "cdc_assets.components.CdcSource",
                "attributes": {"registry_file": "shop.yaml"},
            },
        )
        (Path(path) / "shop.yaml").write_text(SHOP, encoding="utf-8")
        with sandbox.load_component_and_build_defs(defs_path="shop") as (component, defs):
            assert isinstance(component, CdcSource)
            graph = defs.get_repository_def().asset_graph
    assert graph.get_all_asset_keys() == definitions(source).get_repository_def().asset_graph.get_all_asset_keys()


SHOP = """\
source: shop
owners: ["team:data"]
database: {kind: postgresql, host: db, dbname: shop, user: u, password: {secret: shop}}
backup: {store: {kind: s3, bucket: backups, prefix: lake}}
tables:
  - {name: public.orders}
  - {name: public.lines}
"""


@pytest.mark.parametrize("target", ["workspace.yaml"])
def test_the_workspace_names_the_code_location(target: str) -> None:
    from dagster._core.workspace.load_target import WorkspaceFileTarget

    (origin,) = WorkspaceFileTarget([str(ROOT / target)]).create_origins()
    assert origin.location_name == "cdc_assets"
