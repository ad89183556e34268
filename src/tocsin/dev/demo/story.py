"""The course of the demonstration: create, watch, kill, read back. Runs on a thread beside the supervisor's."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tocsin.dev.demo.door import Door, buckets, each, session, total
from tocsin.dev.demo.figures import bucket_bound
from tocsin.dev.demo.mailbox import Mailbox
from tocsin.dev.demo.occurrences import RECURRING, Call, Created, Key, Kind
from tocsin.dev.demo.plan import (
    BURST,
    SLOW,
    SLOW_CALL_S,
    Places,
    Wanted,
    burst_jobs,
    first_jobs,
    occurrences,
    slow_jobs,
)
from tocsin.dev.demo.tally import AfterKill, Summary, after_kill, summarise
from tocsin.dev.demo.target import DemoTarget
from tocsin.dev.doors import HOST
from tocsin.domain.instants import SECOND, Micros

ARRIVE_WAIT_S: Final = 45.0
"""How long after the last due time calls are waited for: longer than the takeover from a dead worker lasts."""
READ_BACK_WAIT_S: Final = 20.0
RUNS_READ: Final = 200
METRICS_EVERY_S: Final = 0.5
LOOK_EVERY_S: Final = 0.05
STOP_WAIT_S: Final = 3.0
ENDED: Final = ("SUCCEEDED", "DEAD")


@dataclass(frozen=True, slots=True)
class Killed:
    """The worker that was killed, and when."""

    pid: int
    at: Micros


class Story:
    """What happens, as plain fields that the view on the main thread reads while they change.

    Attributes:
        burst: how many jobs are due in one second.
        phase: what goes on now, for people.
        wanted: jobs to be created so far.
        created: jobs that were taken.
        refusals: why others were not.
        killed: set when the worker was killed.
        fired, succeeded: by the trigger's own counters.
        early: by the trigger's own counter.
        commit_p50_s, commit_p99_s: upper bounds of the trigger's lateness, from its histogram.
        states: the state of each run as read back.
        summary, after_kill: set at the end.
        failure: what broke the course off, if anything did.

    Args:
        gateway_url, trigger_metrics_url: of the system.
        mailbox: where its messages go.
        kill_worker: kills the worker at once and returns its pid.
        burst: see above.
    """

    def __init__(
        self,
        gateway_url: str,
        trigger_metrics_url: str,
        mailbox: Mailbox,
        kill_worker: Callable[[], int],
        burst: int = BURST,
    ) -> None:
        self.burst = burst
        self.phase = "creating"
        self.wanted = 0
        self.created: dict[str, Created] = {}
        self.refusals: list[str] = []
        self.target = DemoTarget(SLOW_CALL_S)
        self.mailbox = mailbox
        self.killed: Killed | None = None
        self.fired = self.succeeded = self.early = 0
        self.commit_p50_s: float | None = None
        self.commit_p99_s: float | None = None
        self.states: dict[Key, str] = {}
        self.summary: Summary | None = None
        self.after_kill: AfterKill | None = None
        self.failure: BaseException | None = None
        self._steps: dict[str, Micros] = {}
        self._kill_worker = kill_worker
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

    @property
    def good(self) -> bool:
        """Whether it came to its end as it should, and everything went as promised."""
        return self.summary is not None and self.summary.good and not self.early and self.killed is not None

    def break_off(self) -> None:
        """End it now."""
        if self._thread.is_alive() and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(STOP_WAIT_S)

    def of_kind(self, *kinds: Kind) -> list[Created]:
        """Return the jobs of these kinds."""
        return [job for job in list(self.created.values()) if job.kind in kinds]

    def calls_of(self, one: Created) -> Sequence[Call]:
        """Return the calls, or records, that an occurrence has led to."""
        return (self.mailbox.arrivals if one.kind is Kind.MESSAGE else self.target.calls).get(one.key, ())

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
                await asyncio.to_thread(self.mailbox.open)
                await self._create_all(door)
                self.phase = "waiting for what is due"
                await self._kill_in_the_middle()
                due = await self._wait_for_all()
                self.phase = "reading back"
                for job in self.of_kind(*RECURRING):  # nobody will answer their calls any more
                    await door.delete(job.job_id)
                await self._read_back(door, due)
                await self._read_counters(door)
                await asyncio.to_thread(self.mailbox.close)
            finally:
                counting.cancel()
                await self.target.stop()
            self._judge(due)

    def _judge(self, due: list[Created]) -> None:
        jobs, calls = list(self.created.values()), self.target.calls
        self.summary = summarise(jobs, due, len(self.refusals), calls, self.mailbox.arrivals, self.states)
        if self.killed is not None:
            self.after_kill = after_kill(self.killed.at, self.of_kind(Kind.SLOW), calls)
        self.phase = "done"

    async def _create_all(self, door: Door) -> None:
        began_s = time.monotonic()
        await self._create(door, first_jobs(_now()))
        rate = len(self.created) / (time.monotonic() - began_s)
        burst = burst_jobs(_now(), rate, self.burst)
        # First what has to be there before its time, whatever the many others take.
        await self._create(door, slow_jobs(burst[0].due_at, self.burst))
        await self._create(door, burst)

    async def _create(self, door: Door, wanted: list[Wanted]) -> None:
        self.wanted += len(wanted)
        places = Places(self.target.quick_url, self.target.slow_url, self.mailbox.topic)

        async def create(job: Wanted) -> None:
            answer = await door.create(job, places)
            if isinstance(answer, Created):
                self.created[answer.job_id] = answer
                self._steps[answer.job_id] = job.step
            else:
                self.refusals.append(answer)

        await each(wanted, create)

    async def _kill_in_the_middle(self) -> None:
        """Kill the worker once it has begun half of the slow calls."""
        slow = self.of_kind(Kind.SLOW)
        deadline = max((job.due_at for job in slow), default=0) + int(ARRIVE_WAIT_S * SECOND)
        while sum(bool(self.calls_of(job)) for job in slow) < SLOW // 2:
            if not slow or _now() > deadline:
                return
            await asyncio.sleep(LOOK_EVERY_S)
        self.killed = Killed(self._kill_worker(), _now())
        self.phase = "a worker was killed"

    async def _wait_for_all(self) -> list[Created]:
        """Wait until every call was answered; return what was due, the recurring jobs' up to the one-offs' end."""
        once = [job for job in self.created.values() if job.kind not in RECURRING]
        deadline = max((job.due_at for job in once), default=_now()) + int(ARRIVE_WAIT_S * SECOND)
        await self._wait_for(once, deadline)
        now = _now()
        due = [one for job in self.of_kind(*RECURRING) for one in occurrences(job, self._steps[job.job_id], now)]
        await self._wait_for(due, now + int(ARRIVE_WAIT_S * SECOND))
        return once + due

    async def _wait_for(self, due: Sequence[Created], deadline: Micros) -> None:
        missing = list(due)
        while missing and _now() < deadline:
            await asyncio.sleep(LOOK_EVERY_S)
            missing = [one for one in missing if not any(call.answered for call in self.calls_of(one))]

    async def _read_back(self, door: Door, due: Sequence[Created]) -> None:
        async def read(job_id: str) -> None:
            self.states |= await door.states(job_id, RUNS_READ if self._steps[job_id] else 1)

        deadline_s = time.monotonic() + READ_BACK_WAIT_S
        while time.monotonic() < deadline_s:
            open_jobs = {one.job_id for one in due if self.states.get(one.key) not in ENDED}
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
