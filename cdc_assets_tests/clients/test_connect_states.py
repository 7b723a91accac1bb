"""What a failed task says to a person."""

from __future__ import annotations

import pytest

from cdc_assets.clients.connector_states import ConnectorStatus, Obstacle
from cdc_assets.registry.field_types import TableId

# As Debezium 3.5 fails behind a purged binlog (docs/adr/archive/0044).
STOPS = "org.apache.kafka.connect.errors.ConnectException: An exception occurred in the change event producer."
TRACE = f"""{STOPS}
\tat io.debezium.pipeline.ErrorHandler.setProducerThrowable(ErrorHandler.java:72)
Caused by: io.debezium.DebeziumException: Could not find GTID state requested by slave. Error code: 1236; SQLSTATE: HY000.
\tat io.debezium.connector.binlog.BinlogStreamingChangeEventSource.wrap(BinlogStreamingChangeEventSource.java:1)
Caused by: com.github.shyiko.mysql.binlog.network.ServerException: Could not find GTID state, password=opensesame
\t... 3 more"""


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (
            TRACE,
            f"{STOPS}; caused by com.github.shyiko.mysql.binlog.network.ServerException: "
            "Could not find GTID state, password=[hidden]. The server's log does not go on where it was read. "
            "Mend: cdc repair source shop-capture",
        ),
        (
            "org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception from producer send callback\n"
            "Caused by: org.apache.kafka.common.errors.RecordTooLargeException: The message is 16000602 bytes when serialized "
            "which is larger than 10485760, which is the value of the max.request.size configuration.",
            "a record has 16000602 bytes, and its producer sends 10485760 at most (max.request.size): a restart meets it again. "
            "The worker's log names its topic (failed to send record to); let it send more, or a mirror go past it "
            "(cdc repair mirror TOPIC): docs/how-to/repair.md#a-row-that-is-too-large-for-kafka",
        ),
        (
            "io.debezium.DebeziumException: The connector is trying to read change stream starting at SourceInfo [gtid=a:9], but "
            "this is no longer available on the server. Reconfigure the connector to use a snapshot mode when needed.\n"
            "\tat io.debezium.connector.mysql.MySqlConnectorTask.start(MySqlConnectorTask.java:1)",
            "io.debezium.DebeziumException: The connector is trying to read change stream starting at SourceInfo [gtid=a:9], but "
            "this is no longer available on the server. Reconfigure the connector to use a snapshot mode when needed. The "
            "server's log does not go on where it was read. Mend: cdc repair source shop-capture",
        ),
        ("org.example.Boom: no route\n\tat Frame", "org.example.Boom: no route"),
        ("a: b\nCaused by: b", "a: b"),
        ("", ""),
    ],
)
def test_a_failure_is_told_with_its_cause(trace: str, said: str) -> None:
    answer = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "FAILED", "trace": trace}]}
    status = ConnectorStatus.parse("shop-capture", answer)
    assert status.failed
    assert status.trace == ((said,) if said else ())
    assert status.details[0].trace == said


# As Debezium 3.6.1 and 3.5.0 stop at a statement, each from a real server.
PLEASE = (
    "DDL statement couldn't be parsed. Please open a GitHub issue at https://github.com/debezium/dbz/issues with the statement"
)
TWICE = f"""{STOPS}
\tat io.debezium.pipeline.ErrorHandler.setProducerThrowable(ErrorHandler.java:67)
Caused by: io.debezium.DebeziumException: Error processing binlog event
\t... 8 more
Caused by: Multiple parsing errors
io.debezium.text.ParsingException: {PLEASE} 'ALTER TABLE n5\n  REORGANIZE PARTITION'
no viable alternative at input 'PARTITION'
io.debezium.text.ParsingException: {PLEASE} 'ALTER TABLE n5\n  REORGANIZE PARTITION'
mismatched input '<EOF>' expecting BY_SYMBOL
\tat io.debezium.antlr.AntlrDdlParser.throwParsingException(AntlrDdlParser.java:340)
"""
ONCE = f"""{STOPS}
Caused by: io.debezium.text.ParsingException: {PLEASE} 'ALTER TABLE n5 ADD SYSTEM VERSIONING'
no viable alternative at input 'ALTER TABLE n5 ADD SYSTEM'
\tat io.debezium.antlr.ParsingErrorListener.syntaxError(ParsingErrorListener.java:44)
Caused by: org.antlr.v4.runtime.NoViableAltException
\t... 16 more
"""
PART = f"""{STOPS}
Caused by: io.debezium.text.ParsingException: Trying to change column item in x.c1 table, which does not exist. Query: CHANGE
 COLUMN item thing INT
\tat io.debezium.connector.mysql.antlr.listener.AlterTableParserListener.enter(AlterTableParserListener.java:1)
"""
ROWS = f"""{STOPS}
Caused by: io.debezium.DebeziumException: Error processing row in t0, internal schema size 3, but row size 4 , restart connector
\t... 7 more
"""
UNKNOWN = f"""{STOPS}
Caused by: io.debezium.DebeziumException: Encountered change event for table x.t 0 whose schema isn't known to this connector
\t... 7 more
"""
UNNAMED = f"""{STOPS}
Caused by: java.lang.NullPointerException: Cannot invoke "….ColumnType.ordinal()" because the return value of \
"com.github.shyiko.mysql.binlog.event.deserialization.ColumnType.byCode(int)" is null
\t... 4 more
"""


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (
            TWICE,
            "a statement{}: ALTER TABLE n5 REORGANIZE PARTITION; cannot parse it: no viable alternative at input 'PARTITION'",
        ),
        (
            ONCE,
            "a statement{}: ALTER TABLE n5 ADD SYSTEM VERSIONING; cannot parse it: no viable alternative at input "
            "'ALTER TABLE n5 ADD SYSTEM'",
        ),
        (
            PART,
            "a statement{}: CHANGE COLUMN item thing INT; Trying to change column item in x.c1 table, which does not exist",
        ),
        (ROWS, "rows of table t0 do not fit Debezium's model{}: internal schema size 3, but row size 4"),
        (
            ROWS.replace("t0", "an order, late"),
            "rows of table an order, late do not fit Debezium's model{}: internal schema size 3, but row size 4",
        ),
        (UNKNOWN, "rows of table x.t 0 do not fit Debezium's model{}: it has none of that table"),
        (
            UNNAMED,
            "rows of a table with COMPRESSED columns, captured or not{}: its client does not know their type. cdc preflight "
            "names the columns, and the statement that ends it",
        ),
    ],
)
def test_what_a_connector_of_a_binlog_cannot_read_is_told_with_its_place_and_the_command(trace: str, said: str) -> None:
    answer = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "FAILED", "trace": trace}]}
    for place, behind in (("binlog.000001:4", " (behind binlog.000001:4)"), ("", "")):
        status = ConnectorStatus.parse("shop-capture", answer, place=place)
        (told,) = status.trace
        assert said.format(behind) in told
        assert "Mend: cdc repair model shop-capture" in told
    assert status.obstacle is not None
    running = {**answer, "tasks": [{"id": 0, "state": "RUNNING", "trace": trace}]}
    assert ConnectorStatus.parse("shop-capture", running).obstacle is None


def test_a_table_whose_rows_cannot_be_read_is_known_with_its_database_and_without() -> None:
    table, others = TableId("x", "t 0"), (TableId("y", "t 0"), TableId("x", "t"))
    for trace, elsewhere in ((UNKNOWN, False), (ROWS.replace("t0", "t 0"), True)):
        obstacle = Obstacle.of(trace)
        assert obstacle is not None
        assert [obstacle.is_about(each) for each in (table, *others)] == [True, elsewhere, False]
