"""What connectors declare of their snapshots, from their notifications."""

from __future__ import annotations

from collections.abc import Iterable

from cdc_assets.capture.connectors.debezium_signals import KeptNotifications, Notification, in_order
from cdc_assets.proof.volumetry import Declarations, DeclaredRows, declarations
from cdc_assets_tests.support.notified import SCAN, said


def declared(told: Iterable[Notification]) -> Declarations:
    return declarations(KeptNotifications(in_order(told)))


def test_only_a_snapshot_that_has_ended_declares_rows() -> None:
    running = [said("STARTED", 1), said(SCAN, 2, "public.a", 5)]
    assert (declared(running).of_tables, declared(running).complete) == ({}, False)
    ended = [*running, said("COMPLETED", 3)]
    assert (declared(ended).of_tables, declared(ended).complete) == ({"public.a": DeclaredRows(5, 3)}, True)


def test_the_newest_counts_in_whichever_order_partitions_give_them() -> None:
    first = [said("STARTED", 1), said(SCAN, 2, "public.a", 5), said(SCAN, 2, "public.b", 7), said("COMPLETED", 2)]
    second = [said("STARTED", 8), said(SCAN, 8, "public.a", 3), said("COMPLETED", 9)]
    found = declared([*reversed(second), *reversed(first)]).of_tables
    assert found == {"public.a": DeclaredRows(3, 9), "public.b": DeclaredRows(7, 2)}


def test_what_was_given_up_or_could_not_be_read_declares_nothing() -> None:
    given_up = [said("STARTED", 1), said(SCAN, 2, "public.a", 5), said("ABORTED", 3)]
    again = [said("STARTED", 4), said(SCAN, 5, "public.b", 1, "SQL_EXCEPTION"), said("COMPLETED", 6)]
    assert declared([*given_up, *again]).of_tables == {}


def test_a_table_read_again_need_not_have_the_rows_of_before() -> None:
    """A heal reads some rows only. What was read again may be on its way until its end."""
    first = [said("STARTED", 1), said(SCAN, 2, "public.a", 5), said("COMPLETED", 3)]
    assert declared([*first, said(SCAN, 8, "public.a", 2, of="heal-0a1b")]).of_tables == {"public.a": DeclaredRows(5, 3)}
    failed = said(SCAN, 8, "public.a", 2, "SQL_EXCEPTION", of="again-s-1-0a1b")
    assert declared([*first, failed]).of_tables == {"public.a": DeclaredRows(5, 3)}
    again = said(SCAN, 8, "public.a", 3, of="again-s-1-0a1b")
    assert declared([again, *first]).of_tables == {"public.a": DeclaredRows(0, 8)}
