"""How often a property of random histories is asked: each example holds several worlds, and is a Spark job of seconds."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

FEW_EXAMPLES = settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""The same two in each run, and none made smaller: what a seed has found is played again by its seed."""
