"""Jobs over all sources at once, and the executor that runs their steps side by side in one process.

A run has a fixed price, so what is asked for all sources is one run. The steps wait for Connect, Kafka and databases, so threads
do: what waits for one source holds no other. A process for each would load the code anew, 4 to 20 s (ADR 0012).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeAlias

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.errors import raise_execution_interrupts
from dagster._core.events import DagsterEvent
from dagster._core.execution.api import ExecuteRunWithPlanIterable
from dagster._core.execution.compute_logs import create_compute_log_file_key
from dagster._core.execution.context.system import PlanExecutionContext, PlanOrchestrationContext, StepExecutionContext
from dagster._core.execution.context_creation_job import PlanExecutionContextManager
from dagster._core.execution.execute_in_process import core_execute_in_process
from dagster._core.execution.plan.execute_plan import dagster_event_sequence_for_step
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.base import Executor
from typing_extensions import override

from cdc_assets.capture.onboarding.onboarding_run import ROUTES, job_name

_AT_A_TIME = 8
# A step that is to be tried again is asked for that often.
_LOOK_SECONDS = 1.0

_Told: TypeAlias = tuple[str, DagsterEvent | BaseException | None]
"""A step's key, and what it says: an event, that it ended, or an error of Dagster's own."""


class SideBySideExecutor(Executor):
    """Steps run in threads as soon as those before them are done. An interrupted run leaves them to the process's end."""

    @property
    @override
    def retries(self) -> RetryMode:
        return RetryMode.ENABLED

    @override
    def execute(self, plan_context: PlanOrchestrationContext, execution_plan: ExecutionPlan) -> Iterator[DagsterEvent]:
        yield from ExecuteRunWithPlanIterable(
            execution_plan=execution_plan,
            iterator=_events,
            execution_context_manager=PlanExecutionContextManager(
                job=plan_context.job,
                retry_mode=plan_context.retry_mode,
                execution_plan=execution_plan,
                run_config=plan_context.run_config,
                dagster_run=plan_context.dagster_run,
                instance=plan_context.instance,
                raise_on_error=plan_context.raise_on_error,
                output_capture=plan_context.output_capture,
                step_dependency_config=self.step_dependency_config,
            ),
        )


@dg.executor(name="side_by_side", requirements=[])
def side_by_side_executor(_: dg.InitExecutorContext) -> Executor:
    """The executor of jobs whose steps wait for one source each."""
    return SideBySideExecutor()


def execute_here(job: dg.JobDefinition, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    """Run a job in this process, by its own executor: `JobDefinition.execute_in_process` would run step after step."""
    return core_execute_in_process(
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        job=InMemoryJob(job_def=job),
        instance=instance,
        output_capturing_enabled=False,
        raise_on_error=False,
    )


def _events(job_context: PlanExecutionContext, execution_plan: ExecutionPlan) -> Iterator[DagsterEvent]:
    """Everything that the steps say, as it comes; the process's output is the run's, as of every run in one process."""
    logs = job_context.instance.compute_log_manager
    steps = [step.key for step in execution_plan.get_steps_to_execute_in_topo_order()]
    log_key = logs.build_log_key_for_run(job_context.run_id, create_compute_log_file_key())
    with logs.capture_logs(log_key) as log_context:
        yield DagsterEvent.capture_logs(job_context, steps, log_key, log_context)
        yield from _work(job_context, execution_plan)


def _work(job_context: PlanExecutionContext, execution_plan: ExecutionPlan) -> Iterator[DagsterEvent]:
    outcomes: SimpleQueue[_Told] = SimpleQueue()
    running = 0
    with execution_plan.start(
        retry_mode=job_context.retry_mode, step_dependency_config=job_context.step_dependency_config
    ) as active:
        while not active.is_complete:
            for step in active.get_steps_to_execute(limit=_AT_A_TIME - running):
                context = job_context.for_step(step, active.get_known_state())
                threading.Thread(target=_run, args=(context, outcomes), name=f"step {step.key}", daemon=True).start()
                running += 1
            with suppress(Empty), raise_execution_interrupts():
                key, outcome = outcomes.get(timeout=_LOOK_SECONDS)
                if isinstance(outcome, BaseException):
                    raise outcome
                if outcome is not None:
                    yield outcome
                    active.handle_event(outcome)
                else:
                    running -= 1
                    active.verify_complete(job_context, key)
            yield from active.plan_events_iterator(job_context)


def _run(context: StepExecutionContext, told: SimpleQueue[_Told]) -> None:
    """One step; its own errors are events."""
    try:
        for event in dagster_event_sequence_for_step(context):
            told.put((context.step.key, event))
        told.put((context.step.key, None))
    except BaseException as error:  # noqa: BLE001  it is raised where the run is
        told.put((context.step.key, error))


TRANSPORT_JOB = "transport"
VOLUMETRY_JOB = "volumetry"
REPLAY_JOB, RESTORE_JOB = "replay", "restore"
MENDING_JOBS = (REPLAY_JOB, RESTORE_JOB, *map(job_name, ROUTES))
"""Those that a person launches, and behind which a table that failed may go on."""


def build_overall_jobs() -> list[UnresolvedAssetJobDefinition]:
    """`transport` brings connectors, topics and mirrors to what is declared; `volumetry` runs every check."""
    layers = ("connector", "topic", "mirror")
    transport = dg.AssetSelection.tag("layer", layers[0])
    for layer in layers[1:]:
        transport = transport | dg.AssetSelection.tag("layer", layer)
    return [
        dg.define_asset_job(
            TRANSPORT_JOB,
            selection=transport.without_checks(),
            executor_def=side_by_side_executor,
            description="Bring all connectors, topics and mirrors to what is declared, and wait until they carry.",
        ),
        dg.define_asset_job(
            VOLUMETRY_JOB, selection=dg.AssetSelection.all_asset_checks(), description="Compare the counts of all chains."
        ),
    ]
