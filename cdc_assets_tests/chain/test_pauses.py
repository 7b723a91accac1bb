"""How long what fails rests, on a clock of the test's own."""

from __future__ import annotations

from cdc_assets.chain.continuous_source import FOR_GOOD, Pauses

CITY, COUNTRY = ("silver", "city"), ("silver", "country")


def test_pauses_grow_and_end_with_a_success() -> None:
    now = [100.0]
    pauses = Pauses(lambda: now[0])
    seen = []
    for _ in range(9):
        failing = pauses.note_failure(CITY, "no rows")
        seen.append(failing.pause)
        assert not pauses.is_due(CITY)
        assert pauses.is_due(COUNTRY)
        now[0] += failing.pause
        assert pauses.is_due(CITY)
    assert seen == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert pauses.note_success(CITY)
    assert not pauses.note_success(CITY)
    assert (pauses.failing, pauses.note_failure(CITY, "again").pause) == ({}, 1)


def test_a_hiccup_is_told_from_what_lasts() -> None:
    pauses = Pauses()
    lasting = [pauses.note_failure(CITY, "").is_lasting for _ in range(FOR_GOOD)]
    assert lasting == [False] * (FOR_GOOD - 1) + [True]


def test_a_place_that_fails_for_weeks_still_has_a_pause() -> None:
    pauses = Pauses(lambda: 0.0)
    assert {pauses.note_failure(CITY, "").pause for _ in range(2000)} == {1, 2, 4, 8, 16, 32, 60}
