"""How a plain function becomes a Prefect task: named, uncached, nothing kept, nothing private told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.runtime import deployment, flow_run

from contracts.errors import Finding, GateBroken
from tasks.storage.workspace.run_folder import RunFolder, sheltered

P = ParamSpec("P")
R = TypeVar("R")


def as_task(
    function: Callable[P, R], *, name: str, retries: int = 0, only_after: type[Exception] | None = None
) -> Task[Concatenate[RunFolder, P], R]:
    """Return the Prefect task of a step.

    The task takes the run's folder before the function's own arguments: an error that is not ours leaves its
    traceback there, and Prefect is told its type alone. A broken gate stays with the run too (`run.refusal`): Prefect
    is told which gate and what to do, not what was found or where in the table; of a period not even which gate.
    Results stay in this process;
    arguments are not hashed.

    Args:
        function: the plain function.
        name: the task's name.
        retries: how often it is tried again; 0 for whatever draws noise.
        only_after: the only error after which it is tried again.
    Returns:
        Task: calls the function.
    """

    def guarded(run: RunFolder, *arguments: P.args, **named: P.kwargs) -> R:
        try:
            return sheltered(lambda: function(*arguments, **named), lambda: run.error_log)
        except GateBroken as broken:
            run.refusal = broken
            told = without_gates() if run.of_period else without_row_facts(broken)
        raise told

    guarded.__name__, guarded.__doc__ = name, function.__doc__

    def may_retry(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
        return only_after is not None and isinstance(state.data, only_after)

    return Task(
        guarded,
        name=name,
        retries=retries,
        retry_delay_seconds=1,
        retry_condition_fn=may_retry,
        persist_result=False,
        cache_policy=NO_CACHE,
        log_prints=False,
    )


def flow_run_ids() -> dict[str, str]:
    """Return Prefect's ids of the flow run that is running, and of its deployment, where there is one."""
    ids = {"flow_run": flow_run.id, "deployment": deployment.id}
    return {name: str(value) for name, value in ids.items() if value}


def without_gates() -> GateBroken:
    """Return the refusal of a period as Prefect may keep it: which gate broke would say that a period has no rows."""
    remedy = "sudare releases gaps --private says which, and what to do"
    return GateBroken([Finding("the source", "a gate", "kept private", "data for which the gates hold", remedy)])


def without_row_facts(broken: GateBroken) -> GateBroken:
    """Return the refusal as Prefect may keep it: the gates by name and the remedies, nothing that a row shows."""
    found, allowed = "told to whoever ran the command", "data for which the gate holds"
    return GateBroken(
        [Finding("the source", finding.field, found, allowed, finding.remedy) for finding in broken.findings]
    )
