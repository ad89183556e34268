"""Container targets as Jobs of a Kubernetes cluster, by its official client.

The cluster runs and limits them; the worker submits, watches, fetches the end of their output, and removes them. A Job
outlives its worker: it is removed when its dispatch is followed by another, or else at its own time limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import aiohttp
import structlog
from kubernetes.aio import client
from kubernetes.aio.client.exceptions import ApiException

from tocsin.adapters.targets.answers import one_line
from tocsin.adapters.targets.attempt_loop import CANCELLED, AttemptLoop
from tocsin.adapters.targets.container import judge_container
from tocsin.adapters.targets.kubernetes_manifest import (
    EXECUTION_LABEL,
    TOKEN_LABEL,
    WORKER_LABEL,
    KubernetesPlace,
    job_of,
    labels_of,
)
from tocsin.domain.executions import AttemptError, AttemptHead, ReportKind
from tocsin.domain.programs import ContainerTarget
from tocsin.ports.clock import Clock
from tocsin.ports.run_logs import LogPlace, RunLogs
from tocsin.ports.targets import Attempt, AttemptEnd

log = structlog.get_logger()

End = tuple[ReportKind, AttemptError | None]
AWAY: Final = (aiohttp.ClientError, OSError, TimeoutError)
"""What is raised where the cluster gives no answer."""
POLL_S: Final = 2.0
PAGE_JOBS: Final = 500
SLACK_S: Final = 3.0
"""How long past its limit the cluster may take to say that a Job was ended for it."""
CALL_WAIT_S: Final = 5.0
SUBMIT_TRIES: Final = 3
GONE_LOOKS: Final = 3
"""So often in a row a Job must not be listed before it counts as removed by somebody else."""
LOG_LINES: Final = 5_000
LOG_BYTES: Final = 1_000_000
NO_PIDS: Final = AttemptError("not_allowed", "Kubernetes limits no processes of a container: leave resources.pids out")
_FINAL: Final = {400: "not_executable", 403: "not_allowed", 404: "not_allowed", 422: "not_executable"}


class KubernetesRunner(AttemptLoop):
    """Fulfils ``ports.targets.TargetRunner`` for container targets.

    Args:
        clock: stamps start and end.
        logs: where output goes.
        connect: makes the client of the cluster's API, on the loop of this runner.
        place: where Jobs are made, and as whom.
        worker: names the worker's process in labels.
        poll_s: how often Jobs are looked at.
    """

    def __init__(
        self,
        clock: Clock,
        logs: RunLogs,
        connect: Callable[[], Awaitable[client.ApiClient]],
        place: KubernetesPlace,
        worker: str,
        poll_s: float = POLL_S,
    ) -> None:
        super().__init__(clock, "kubernetes-jobs")
        self._logs = logs
        self._place = place
        self._worker = worker
        self._poll_s = poll_s
        self._waiting: dict[str, asyncio.Future[client.V1JobStatus | None]] = {}
        """By the name of the Job: its status once it has ended; None: it is gone."""
        self._watch: asyncio.Task[None] | None = None
        self._api: client.ApiClient = self._await(_made(connect))
        self._batch, self._core = client.BatchV1Api(self._api), client.CoreV1Api(self._api)

    async def _release(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        await self._api.close()

    async def _run(self, attempt: Attempt) -> AttemptEnd:
        started_at = self._clock.now()
        head = attempt.execution.head
        output = self._logs.open(LogPlace(head.execution_id, head.attempt, head.token))
        try:
            kind, error = await self._carry_out(attempt, output.write)
        except asyncio.CancelledError:
            kind, error = ReportKind.CANCELLED, CANCELLED
        except Exception as exception:  # noqa: BLE001 - an attempt without an end would hold its place for ever
            kind, error = ReportKind.FAILED, _failure(exception)
        tail = output.end()
        return AttemptEnd(attempt.ref, kind, started_at, self._clock.now(), error, tail or None)

    async def _carry_out(self, attempt: Attempt, write: Callable[[bytes], None]) -> End:
        target = attempt.execution.target
        if not isinstance(target, ContainerTarget):
            raise ValueError(f"a target of the type {target.type!r} is no container")
        if "pids" in target.resources:
            return ReportKind.FAILED, NO_PIDS
        job = job_of(attempt, target, self._place, self._worker)
        name = job.metadata.name
        try:
            await self._remove_predecessors(attempt.execution.head)
            await self._submit(job)
            end = await self._followed(name, target.timeout_s)
            await self._fetch_output(name, write)
            return end
        finally:
            self._waiting.pop(name, None)
            # Also after a submission of unknown outcome, and after a cancel.
            await asyncio.shield(self._remove(name))

    async def _followed(self, name: str, timeout_s: float) -> End:
        """Wait for the end of a Job; the cluster ends it at its limit, and if it does not, we do."""
        try:
            async with asyncio.timeout(timeout_s + SLACK_S):
                status = await self._end_of_job(name)
        except TimeoutError:
            return ReportKind.TIMED_OUT, _timeout(timeout_s)
        return await self._judged(name, status, timeout_s)

    # Asking the cluster

    async def _submit(self, job: client.V1Job) -> None:
        """Make the Job; the same name makes it once, so what got no answer is asked again."""
        for tries in range(SUBMIT_TRIES):
            try:
                await self._batch.create_namespaced_job(self._place.namespace, job, _request_timeout=CALL_WAIT_S)
                return
            except ApiException as error:
                if error.status == 409:
                    return
                if error.status < 500 or tries + 1 == SUBMIT_TRIES:
                    raise
            except AWAY:
                if tries + 1 == SUBMIT_TRIES:
                    raise
            await asyncio.sleep(self._poll_s)

    async def _remove_predecessors(self, head: AttemptHead) -> None:
        """Remove Jobs of earlier dispatches of the execution: their workers are lost, and what they do is unwanted."""
        selector = f"{EXECUTION_LABEL}={labels_of(head, self._worker)[EXECUTION_LABEL]}"
        found = await self._batch.list_namespaced_job(
            self._place.namespace, label_selector=selector, limit=PAGE_JOBS, _request_timeout=CALL_WAIT_S
        )
        for job in found.items:
            if int(job.metadata.labels.get(TOKEN_LABEL, "0")) < head.token:
                await self._remove(job.metadata.name)

    async def _remove(self, name: str) -> None:
        try:
            await self._batch.delete_namespaced_job(
                name, self._place.namespace, propagation_policy="Background", _request_timeout=CALL_WAIT_S
            )
        except ApiException as error:
            if error.status != 404:
                log.warning("a Job could not be removed", action="worker.job_left", job=name, status=error.status)
        except AWAY as error:
            log.warning("a Job could not be removed", action="worker.job_left", job=name, error=str(error))

    async def _end_of_job(self, name: str) -> client.V1JobStatus | None:
        future = self._loop.create_future()
        self._waiting[name] = future
        if self._watch is None or self._watch.done():
            self._watch = self._loop.create_task(self._look())
        return await future

    async def _look(self) -> None:
        """Look at all Jobs of this worker at once, as long as any is waited for."""
        missed: dict[str, int] = {}
        while self._waiting:
            await asyncio.sleep(self._poll_s)
            waited_for = set(self._waiting)
            try:
                found = {job.metadata.name: job.status async for job in self._all_jobs()}
            except (ApiException, *AWAY) as error:
                log.warning("Jobs cannot be looked at", action="worker.jobs_unseen", error=one_line(str(error), 200))
                continue
            missed = {name: missed.get(name, 0) + 1 for name in waited_for if name not in found}
            for name in waited_for:
                future = self._waiting.get(name)
                if future is None or future.done():
                    continue
                status = found.get(name)
                if status is not None and _has_ended(status):
                    future.set_result(status)
                elif missed.get(name, 0) >= GONE_LOOKS:
                    future.set_result(None)

    async def _all_jobs(self) -> Any:
        token = None
        while True:
            page = await self._batch.list_namespaced_job(
                self._place.namespace,
                label_selector=f"{WORKER_LABEL}={self._worker}",
                limit=PAGE_JOBS,
                _continue=token,
                _request_timeout=CALL_WAIT_S,
            )
            for job in page.items:
                yield job
            token = page.metadata._continue
            if not token:
                return

    async def _pod_of(self, name: str) -> client.V1Pod | None:
        found = await self._core.list_namespaced_pod(
            self._place.namespace, label_selector=f"job-name={name}", _request_timeout=CALL_WAIT_S
        )
        return found.items[0] if found.items else None

    async def _judged(self, name: str, status: client.V1JobStatus | None, timeout_s: float) -> End:
        if status is None:
            return ReportKind.FAILED, AttemptError("container", "its Job was removed from the cluster")
        reason = next((one.reason or "" for one in status.conditions or () if one.type == "Failed"), None)
        if reason is None:
            return ReportKind.SUCCEEDED, None
        if reason == "DeadlineExceeded":
            return ReportKind.TIMED_OUT, _timeout(timeout_s)
        pod = await self._pod_of(name)
        for container in (pod.status.container_statuses or ()) if pod is not None else ():
            terminated = container.state.terminated
            if terminated is not None:
                error = judge_container(terminated.exit_code)
                if error is not None and terminated.reason == "OOMKilled":
                    return ReportKind.FAILED, AttemptError("signal", "killed: out of memory", terminated.exit_code)
                return ReportKind.FAILED, error or AttemptError("container", "its Job failed, though it did not")
        why = pod.status.reason if pod is not None else None
        return ReportKind.FAILED, AttemptError("container", one_line(f"its pod did not run: {why or reason}"))

    async def _fetch_output(self, name: str, write: Callable[[bytes], None]) -> None:
        """Fetch the end of what the pod has printed; that it cannot be had changes nothing of the attempt's end."""
        with suppress(ApiException, *AWAY):
            pod = await self._pod_of(name)
            if pod is None:
                return
            text = await self._core.read_namespaced_pod_log(
                pod.metadata.name,
                self._place.namespace,
                tail_lines=LOG_LINES,
                limit_bytes=LOG_BYTES,
                _request_timeout=CALL_WAIT_S,
            )
            write(text.encode("utf-8", "replace"))


async def _made(connect: Callable[[], Awaitable[client.ApiClient]]) -> client.ApiClient:
    return await connect()


def _has_ended(status: client.V1JobStatus) -> bool:
    return any(one.type in ("Complete", "Failed") and one.status == "True" for one in status.conditions or ())


def _timeout(timeout_s: float) -> AttemptError:
    return AttemptError("timeout", f"no end within {timeout_s:g} s")


def _failure(error: Exception) -> AttemptError:
    if isinstance(error, ApiException):
        return AttemptError(
            _FINAL.get(error.status, "container"),
            one_line(f"the cluster refuses the Job: {error.status} {error.reason}"),
        )
    return AttemptError("container", one_line(f"the cluster cannot be asked: {str(error) or type(error).__name__}"))
