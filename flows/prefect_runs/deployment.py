"""Deployments of releases on a Prefect server: a work pool, and a queue of one at a time for each account."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from contracts.domains.calendar_periods import Granularity
from contracts.errors import Finding, SpecRefused
from contracts.periods.period import PLACEHOLDER, Period
from contracts.release.spec import load_spec, pattern_of
from tasks.storage.workspace import settings
from tasks.storage.workspace.environment import exported
from tasks.storage.workspace.settings import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefect.client.orchestration import PrefectClient

    from flows.periods.arrivals import Arrival

EVENT: Final = "sudare.partition.arrived"


@dataclass(frozen=True)
class Deployed:
    """A deployment as it stands on the server.

    Args:
        name: FLOW/NAME, as Prefect shows it.
        id: its id.
        pool: the work pool.
        queue: the queue of its account.
        cron: when it runs; None for only on demand.
        submitted: the periods whose runs were queued.
        changes: what this deploy changed of one that stood, in words.
    """

    name: str
    id: UUID
    pool: str
    queue: str
    cron: str | None
    submitted: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Terms:
    """How a deployment runs; None of what is not named, and stays as it stands on the server.

    Args:
        pool: the work pool; "sudare" where none stands.
        cron: when it runs; empty for only on demand.
        timezone: of the cron; by its days a period is over.
        on_event: whether an event `sudare.partition.arrived` with its name as `deployment` and a `period` starts it.
        supersede: whether each run may make another version, and charge for it, where rows or spec have changed.
    """

    pool: str | None = None
    cron: str | None = None
    timezone: str | None = None
    on_event: bool | None = None
    supersede: bool | None = None

    def over(self, standing: Terms) -> Terms:
        """Return these terms, with those that stand where none is named."""
        named = {name: value for name, value in vars(self).items() if value is not None}
        return replace(standing, **named)

    def changes_from(self, standing: Terms) -> tuple[str, ...]:
        """Say which terms are others than those that stand."""
        pairs = ((name, getattr(standing, name), value) for name, value in vars(self).items())
        return tuple(
            f"{name}: {old or 'none'} → {new or 'none'}" for name, old, new in pairs if (old or "") != (new or "")
        )


@contextmanager
def server_of(workspace: Workspace) -> Iterator[str]:
    """Point Prefect at the workspace's running server inside the block.

    Yields:
        Its address.
    Raises:
        SpecRefused: none is configured; a server of one command runs no schedule.
        PrefectServerFailed: nobody answers there.
    """
    from flows.prefect_runs.server import prefect_server

    if workspace.prefect_api_url is None:
        remedy = "start one (prefect server start, or deploy/local.py), then set PREFECT_API_URL or [prefect] api_url"
        found, allowed = "no Prefect server", "a running one: schedules need it"
        raise SpecRefused([Finding(str(workspace.root / settings.FILE), "prefect.api_url", found, allowed, remedy)])
    with exported({"PREFECT_HOME": str(workspace.prefect_home)}), prefect_server(workspace) as server:
        yield server.api_url


async def standing_terms(spec: Path, *, name: str | None) -> Terms | None:
    """Return how the deployment of a spec runs as it stands on the server; None where there is none."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.exceptions import ObjectNotFound

    from flows.prefect_runs.scheduled_release import scheduled_release

    full = f"{scheduled_release.name}/{name or _names(spec, pattern_of(spec))[0]}"
    async with get_client() as client:
        try:
            known = await client.read_deployment_by_name(full)
        except ObjectNotFound:
            return None
        started_by = await client.read_resource_related_automations(f"prefect.deployment.{known.id}")
    crons = (each.schedule.cron for each in known.schedules if isinstance(each.schedule, CronSchedule))
    cron, told = next(crons, None), known.parameters
    return Terms(
        known.work_pool_name, cron, told.get("timezone"), bool(started_by), bool(told.get("supersede", False))
    )


async def deploy(
    spec: Path, workspace: Workspace, terms: Terms, *, name: str | None, periods: Sequence[Period] = ()
) -> Deployed:
    """Make or change the deployment of a spec; queue runs of periods.

    Args:
        spec: the release spec.
        workspace: which all workers share.
        terms: how it runs, with those that stand where none is named.
        name: of the deployment; the spec's release without its period, if none is given.
        periods: of which runs are queued now.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.types.entrypoint import EntrypointType

    from flows.prefect_runs.scheduled_release import scheduled_release

    pattern = pattern_of(spec)
    release, account = _names(spec, pattern)
    name, queue = name or release, queue_of(account)
    pool, cron, timezone = terms.pool or "sudare", terms.cron or None, terms.timezone
    schedule = None if cron is None else CronSchedule(cron=cron, timezone=timezone)
    deployment = await scheduled_release.to_deployment(
        name,
        schedules=[] if schedule is None else [schedule],
        parameters={
            "spec_path": str(spec.absolute()),
            "workspace_path": str(workspace.root),
            "timezone": timezone,
            "supersede": bool(terms.supersede),
        },
        tags=["sudare", f"release:{release}"],
        work_pool_name=pool,
        work_queue_name=queue,
        triggers=[_trigger(name)] if terms.on_event else [],
        entrypoint_type=EntrypointType.MODULE_PATH,
    )  # type: ignore[misc]
    async with get_client() as client:
        await _have_pool(client, pool)
        await _have_queue(client, pool, queue)
        made = await deployment.aapply(work_pool_name=pool)
        for period in periods:
            await _submit(client, made, spec, pool, period)
    told = tuple(str(period) for period in periods)
    return Deployed(f"{scheduled_release.name}/{name}", made, pool, queue, cron, told)


async def queue_arrivals(spec: Path, arrivals: Sequence[Arrival], *, name: str | None) -> Deployed:
    """Queue runs of periods that have arrived, for the workers of a deployment's pool; the same arrival once only.

    Args:
        spec: the release spec.
        arrivals: which periods, each with the key of its arrival.
        name: of the deployment; the spec's release without its period, if none is given.
    Raises:
        SpecRefused: the server has no such deployment.
    """
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    from flows.prefect_runs.scheduled_release import scheduled_release

    release, account = _names(spec, pattern_of(spec))
    full = f"{scheduled_release.name}/{name or release}"
    async with get_client() as client:
        try:
            known = await client.read_deployment_by_name(full)
        except ObjectNotFound:
            known = None
        if known is None or known.work_pool_name is None:
            found, allowed = f"no deployment {full!r} with a work pool", "one that `sudare deploy` made"
            raise SpecRefused([Finding(str(spec), "deployment", found, allowed, f"sudare deploy {spec}")])
        pool = known.work_pool_name
        for each in arrivals:
            await _submit(client, known.id, spec, pool, each.period, once=each.key)
    told = tuple(str(each.period) for each in arrivals)
    return Deployed(full, known.id, pool, queue_of(account), None, told)


async def _submit(
    client: PrefectClient, deployment: UUID, spec: Path, pool: str, period: Period, *, once: str | None = None
) -> None:
    """Queue the run of a period behind the other runs of its account; under one key `once` only."""
    loaded = load_spec(spec, str(period))
    queue = queue_of(loaded.charge.account)
    await _have_queue(client, pool, queue)
    parameters = {"spec_path": str(spec.absolute()), "period": str(period)}
    known = await client.read_deployment(deployment)
    await client.create_flow_run_from_deployment(
        deployment,
        name=loaded.release,
        parameters=dict(known.parameters) | parameters,
        work_queue_name=queue,
        idempotency_key=once,
    )


def _names(spec: Path, pattern: Granularity | None) -> tuple[str, str]:
    """Return release and account as the spec names them, without what depends on the period."""
    from contracts.reading.yaml_lines import located

    if pattern is None:
        loaded = load_spec(spec)
        return loaded.release, loaded.charge.account
    written = located(spec, refusal=SpecRefused).text()
    release = str(written.get("release", "")).replace(PLACEHOLDER, "").replace("--", "-").strip("-")
    charge = written.get("charge")
    account = charge.get("account", "") if isinstance(charge, dict) else ""
    return release or "release", str(account).replace(PLACEHOLDER, pattern)


def queue_of(account: str) -> str:
    """Return the queue of an account: its runs wait for each other."""
    return f"account-{re.sub(r'[^A-Za-z0-9_.-]+', '-', account)}"


def _trigger(name: str) -> Any:
    """Return what starts a deployment when somebody says that a partition has arrived."""
    from prefect.events import DeploymentEventTrigger

    return DeploymentEventTrigger(
        name=f"{name}: a partition arrived",
        expect={EVENT},
        match={"prefect.resource.id": f"sudare.deployment.{name}"},
        parameters={"period": "{{ event.payload.period }}"},
    )


async def _have_pool(client: PrefectClient, pool: str) -> None:
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
    from prefect.workers.process import ProcessWorker

    try:
        await client.read_work_pool(pool)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        try:
            await client.create_work_pool(WorkPoolCreate(name=pool, type="process", base_job_template=template))
        except ObjectAlreadyExists:
            return


async def _have_queue(client: PrefectClient, pool: str, queue: str) -> None:
    from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

    try:
        known = await client.read_work_queue_by_name(queue, work_pool_name=pool)
    except ObjectNotFound:
        try:
            await client.create_work_queue(queue, concurrency_limit=1, work_pool_name=pool)
        except ObjectAlreadyExists:
            return
    else:
        if known.concurrency_limit is None:
            await client.update_work_queue(known.id, concurrency_limit=1)
