"""The course of the demonstration: create, watch, read back. Runs on a thread of its own, beside the supervisor."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Final

from tocsin.dev.demo.door import Door, buckets, each, session, total
from tocsin.dev.demo.plan import BURST, Wanted, burst_jobs, spread_jobs
from tocsin.dev.demo.tally import Created, Summary, bucket_bound, summarise
from tocsin.dev.demo.target import DemoTarget
from tocsin.dev.doors import HOST
from tocsin.domain.instants import SECOND, Micros

ARRIVE_WAIT_S: Final = 30.0
"""How long after the last due time calls are waited for."""
READ_BACK_WAIT_S: Final = 20.0
METRICS_EVERY_S: Final = 0.5
STOP_WAIT_S: Final = 3.0
ENDED: Final = ("SUCCEEDED", "DEAD")


class Story:
    """What happens, as plain fields that the view on the main thread reads while they change.

    Attributes:
        burst: how many jobs are due in one second.
        phase: what goes on now, for people.
        wanted: jobs to be created so far.
        created: jobs that were taken.
        refusals: why others were not.
        fired, succeeded: by the trigger's own counters.
        early: by the trigger's own counter.
        commit_p50_s, commit_p99_s: upper bounds of the trigger's lateness, from its histogram.
        states: by job, the state of its run as read back.
        summary: set at the end.
        failure: what broke the course off, if anything did.
    """

    def __init__(self, gateway_url: str, trigger_metrics_url: str, burst: int = BURST) -> None:
        self.burst = burst
        self.phase = "creating"
        self.wanted = 0
        self.created: dict[str, Created] = {}
        self.refusals: list[str] = []
        self.target = DemoTarget()
        self.fired = self.succeeded = self.early = 0
        self.commit_p50_s: float | None = None
        self.commit_p99_s: float | None = None
        self.states: dict[str, str] = {}
        self.summary: Summary | None = None
        self.failure: BaseException | None = None
        self._gateway_url = gateway_url
        self._metrics_url = trigger_metrics_url
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="demo", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether it has come to its end."""
        return not self._thread.is_alive()

    def break_off(self) -> None:
        """End it now."""
        if self._thread.is_alive() and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(STOP_WAIT_S)

    def _run(self) -> None:
        try:
            self._task = self._loop.create_task(self._tell())
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001  # the main thread shows it; a thread's traceback helps nobody
            self.failure = error
        finally:
            self._loop.close()

    async def _tell(self) -> None:
        async with session() as client:
            door = Door(self._gateway_url, client)
            await self.target.start(HOST)
            counting = asyncio.create_task(self._count(door))
            try:
                began_s = time.monotonic()
                await self._create(door, spread_jobs(_now()))
                rate = len(self.created) / (time.monotonic() - began_s)
                await self._create(door, burst_jobs(_now(), rate, self.burst))
                self.phase = "waiting for what is due"
                await self._wait_for_calls()
                self.phase = "reading back"
                await self._read_back(door)
                await self._read_counters(door)
            finally:
                counting.cancel()
                await self.target.stop()
            self.summary = summarise(list(self.created.values()), len(self.refusals), self.target.arrivals, self.states)
            self.phase = "done"

    async def _create(self, door: Door, wanted: list[Wanted]) -> None:
        self.wanted += len(wanted)

        async def create(job: Wanted) -> None:
            answer = await door.create(job, self.target.url)
            if isinstance(answer, Created):
                self.created[answer.job_id] = answer
            else:
                self.refusals.append(answer)

        await each(wanted, create)

    async def _wait_for_calls(self) -> None:
        last_due = max((job.due_at for job in self.created.values()), default=_now())
        deadline = last_due + int(ARRIVE_WAIT_S * SECOND)
        while self.created.keys() - self.target.arrivals.keys() and _now() < deadline:
            await asyncio.sleep(0.1)

    async def _read_back(self, door: Door) -> None:
        async def read(job_id: str) -> None:
            state = await door.state(job_id)
            if state is not None:
                self.states[job_id] = state

        deadline_s = time.monotonic() + READ_BACK_WAIT_S
        while time.monotonic() < deadline_s:
            open_jobs = [job_id for job_id in self.created if self.states.get(job_id) not in ENDED]
            if not open_jobs:
                return
            await each(open_jobs, read)
            await asyncio.sleep(0.2)

    async def _count(self, door: Door) -> None:
        while True:
            await self._read_counters(door)
            await asyncio.sleep(METRICS_EVERY_S)

    async def _read_counters(self, door: Door) -> None:
        samples = await door.metrics(self._metrics_url)
        if not samples:
            return
        self.fired = total(samples.get("tocsin_fired_total", []))
        # A trigger that was started again counts from 0; what was early stays so.
        self.early = max(self.early, total(samples.get("tocsin_early_total", [])))
        completed = samples.get("tocsin_completed_total", [])
        self.succeeded = total([sample for sample in completed if sample[0].get("state") == "SUCCEEDED"])
        lateness = buckets(samples.get("tocsin_lateness_seconds_bucket", []))
        self.commit_p50_s, self.commit_p99_s = bucket_bound(lateness, 0.5), bucket_bound(lateness, 0.99)


def _now() -> Micros:
    return time.time_ns() // 1_000
