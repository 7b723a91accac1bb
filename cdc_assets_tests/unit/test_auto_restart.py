"""The rhythm of restarts under a clock of our own."""

from __future__ import annotations

from itertools import pairwise

from cdc_assets.connectors.auto_restart import MAX_RESTARTS, Action, RestartState, decide


def run(minutes: int, failed_at: range | set[int]) -> list[tuple[int, Action]]:
    """What is done in each minute, but for waiting and nothing."""
    state, done = RestartState(), []
    for minute in range(minutes):
        failed = minute in failed_at
        action, state = decide(state, failed=failed, running=not failed, now=1e9 + minute * 60)
        if action not in ("none", "wait", "given up"):
            done.append((minute, action))
    return done


def test_seven_restarts_with_growing_pauses_then_it_gives_up_once() -> None:
    done = run(500, range(500))
    at = [minute for minute, action in done if action == "restart"]
    assert [later - earlier for earlier, later in pairwise(at)] == [2, 6, 12, 20, 30, 42]
    assert len(at) == MAX_RESTARTS
    assert done[-1] == (at[-1] + 56, "give up")
    assert len(done) == MAX_RESTARTS + 1


def test_one_failure_is_forgotten_after_it_has_run_for_a_while() -> None:
    assert run(60, {0, 30}) == [(0, "restart"), (2, "recovered"), (30, "restart"), (32, "recovered")]


def test_one_that_fails_soon_after_each_restart_is_not_restarted_for_ever() -> None:
    state, done, well_until = RestartState(), [], 0
    for minute in range(1000):
        failed = minute >= well_until
        action, state = decide(state, failed=failed, running=not failed, now=1e9 + minute * 60)
        done.append(action)
        well_until = minute + 2 if action == "restart" else well_until
    assert done.count("restart") == MAX_RESTARTS
    assert done.count("give up") == 1
    assert "recovered" not in done


def test_a_person_who_mends_it_after_that_starts_it_anew() -> None:
    state = RestartState(MAX_RESTARTS, 1e9, given_up=True)
    assert decide(state, failed=True, running=False, now=2e9) == ("given up", state)
    assert decide(state, failed=False, running=True, now=2e9) == ("recovered", RestartState())
