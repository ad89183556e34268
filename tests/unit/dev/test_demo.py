"""The demonstration's target, door, story and views, without a system."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from rich.console import Console

from tocsin.dev.audience import SteadyConsole, Terminal
from tocsin.dev.demo import plan as plan_module
from tocsin.dev.demo import story as story_module
from tocsin.dev.demo.closing import show_all
from tocsin.dev.demo.door import Door, each, session, total
from tocsin.dev.demo.mailbox import Record
from tocsin.dev.demo.occurrences import Call, Created, Key, Kind
from tocsin.dev.demo.plan import BURST, SLOW, Places, Wanted, first_jobs, slow_jobs
from tocsin.dev.demo.story import Killed, Story
from tocsin.dev.demo.tally import AfterKill, summarise
from tocsin.dev.demo.target import DemoTarget
from tocsin.dev.demo.view import LiveView, lateness_so_far, standing
from tocsin.dev.doors import HOST
from tocsin.domain.ids import execution_id

NOW = 1_795_976_149_749_001
PLACES = Places("http://t/fired", "http://t/slow", "letters")


@dataclass
class NoMailbox:
    """Fulfils ``Mailbox`` without a broker."""

    topic: str = "letters"
    arrivals: dict[Key, list[Call]] = field(default_factory=dict)
    first: Record | None = None

    def open(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


def a_story(url: str = "http://127.0.0.1:9", burst: int = BURST, kill: Callable[[], int] = lambda: 0) -> Story:
    return Story(url, f"{url}/metrics", NoMailbox(), kill, burst)


def made(job_id: str, due_at: int = 1_000_000, **fields: Any) -> Created:
    return Created(job_id, due_at, **{"kind": Kind.BURST, "answered_at": 0, **fields})


def test_the_target_counts_by_key() -> None:
    async def scenario() -> tuple[DemoTarget, list[int]]:
        target = DemoTarget()
        await target.start(HOST)
        statuses = []
        async with session() as client:
            for key, again in (
                (execution_id("job_1", 2, 3), {}),
                (execution_id("job_1", 2, 3), {"Tocsin-Redelivered": "true"}),
                (execution_id("job_1", 2, 4), {}),
                ("nonsense", {}),
                (None, {}),
            ):
                headers = {"Idempotency-Key": f'"{key}"', **again} if key else {}
                async with client.post(target.quick_url, headers=headers) as answer:
                    statuses.append(answer.status)
        await target.stop()
        return target, statuses

    target, statuses = asyncio.run(scenario())
    assert statuses == [200, 200, 200, 400, 400]
    assert list(target.calls) == [("job_1", 3), ("job_1", 4)]
    assert [call.redelivered for call in target.calls["job_1", 3]] == [False, True]
    assert all(call.answered for calls in target.calls.values() for call in calls)
    assert target.strangers == 2


def test_the_target_knows_a_caller_that_is_gone_when_its_answer_is_ready() -> None:
    async def scenario() -> DemoTarget:
        target = DemoTarget(slow_s=1.5)
        await target.start(HOST)
        async with session() as client:
            headers = {"Idempotency-Key": f'"{execution_id("job_1", 2, 3)}"'}
            caller = asyncio.create_task(client.post(target.slow_url, headers=headers).__aenter__())
            while not target.calls:
                await asyncio.sleep(0.01)
            caller.cancel()
        (call,) = target.calls["job_1", 3]
        while not call.ended_at:
            await asyncio.sleep(0.01)
        await target.stop()
        return target

    (call,) = asyncio.run(scenario()).calls["job_1", 3]
    assert call.broken
    assert not call.answered


def test_each_item_is_worked_on_once() -> None:
    done: list[int] = []

    async def work(item: int) -> None:
        await asyncio.sleep(0)
        done.append(item)

    asyncio.run(each(range(50), work, at_once=7))
    assert sorted(done) == list(range(50))


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def through_a_door(routes: dict[str, Handler], use: Callable[[Door], Awaitable[Any]]) -> Any:
    """Use a door to a gateway that answers as told."""

    async def scenario() -> Any:
        app = web.Application()
        for path, handler in routes.items():
            app.router.add_route("*", path, handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, HOST, 0)
        await site.start()
        try:
            async with session() as client:
                return await use(Door(f"http://{HOST}:{runner.addresses[0][1]}", client))
        finally:
            await runner.cleanup()

    return asyncio.run(scenario())


def test_metrics_by_name_and_nothing_where_there_are_none() -> None:
    async def serve(_request: web.Request) -> web.StreamResponse:
        return web.Response(text='fired_total{shard="1"} 2.0\nfired_total{shard="2"} 3.0\n')

    routes: dict[str, Handler] = {"/metrics": serve}
    samples = through_a_door(routes, lambda door: door.metrics(f"{door._url}/metrics"))
    assert total(samples["fired_total"]) == 5
    assert through_a_door(routes, lambda door: door.metrics(f"{door._url}/elsewhere")) == {}
    assert through_a_door(routes, lambda door: door.metrics("http://127.0.0.1:9/metrics")) == {}


@pytest.mark.parametrize(("status", "decided"), [(201, True), (202, False)])
def test_a_job_that_is_taken(status: int, decided: bool) -> None:
    async def take(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"job_id": "job_7"}, status=status)

    wanted = Wanted("x", Kind.BURST, NOW)
    created = through_a_door({"/v1/jobs": take}, lambda door: door.create(wanted, PLACES))
    assert (created.key, created.kind, created.decided) == (("job_7", NOW), Kind.BURST, decided)


def test_a_job_that_is_not_taken_says_why() -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"detail": "run_at is naive"}, status=422)

    wanted = Wanted("x", Kind.BURST, NOW)
    why = through_a_door({"/v1/jobs": refuse}, lambda door: door.create(wanted, PLACES))
    assert why == "422: run_at is naive"


@pytest.mark.parametrize(
    ("status", "runs", "states"),
    [
        (200, [], {}),
        (503, [(3, "DEAD")], {}),
        (200, [(6, "QUEUED"), (3, "SUCCEEDED"), (3, "RETRY_SCHEDULED")], {6: "QUEUED", 3: "SUCCEEDED"}),
    ],
)
def test_the_states_of_runs(status: int, runs: list[tuple[int, str]], states: dict[int, str]) -> None:
    async def read(_request: web.Request) -> web.StreamResponse:
        said = [{"execution_id": execution_id("job_7", 1, at), "state": state} for at, state in runs]
        return web.json_response({"runs": said}, status=status)

    found = through_a_door({"/v1/jobs/job_7/runs": read}, lambda door: door.states("job_7", 9))
    assert found == {("job_7", at): state for at, state in states.items()}


def test_a_story_against_a_gateway_that_refuses_everything_ends_with_a_bad_summary() -> None:
    story = a_story()
    story.start()
    story._thread.join(60)
    assert story.over
    assert story.failure is None
    assert story.summary is not None
    wanted = len(first_jobs(NOW)) + len(slow_jobs(NOW, BURST)) + BURST
    assert story.summary.refused == wanted
    assert story.killed is None
    assert not story.summary.good
    assert not story.good
    assert f"created 0 of {wanted}" in standing(story)
    assert lateness_so_far(story) == []


class Gateway:
    """Takes every job and never fires one; the test calls in its place."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.deleted: list[str] = []

    @property
    def routes(self) -> dict[str, Handler]:
        return {"/v1/jobs": self.create, "/v1/jobs/{id}": self.delete, "/v1/jobs/{id}/runs": self.runs}

    async def create(self, request: web.Request) -> web.StreamResponse:
        self.jobs.append(await request.json())
        return web.json_response({"job_id": f"job_{len(self.jobs)}"}, status=201)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        self.deleted.append(request.match_info["id"])
        return web.json_response({})

    async def runs(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response({"runs": []})


def test_a_story_kills_the_worker_amid_the_slow_calls_and_misses_what_never_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(story_module, "ARRIVE_WAIT_S", 0.2)
    monkeypatch.setattr(story_module, "READ_BACK_WAIT_S", 0.2)
    monkeypatch.setattr(plan_module, "MESSAGES_AFTER_S", (1.0,))
    for name in ("SPREAD_STEP_S", "BURST_AFTER_S_MIN", "BURST_MARGIN_S", "SLOW_AFTER_S"):
        monkeypatch.setattr(plan_module, name, 0.0)
    gateway = Gateway()

    def use(door: Door) -> Awaitable[Story]:
        async def scenario() -> Story:
            story = a_story(door._url, burst=1, kill=lambda: 4711)
            story.start()
            while story.phase == "creating":
                await asyncio.sleep(0.01)
            for job in story.of_kind(Kind.SLOW)[: SLOW // 2]:
                story.target.calls[job.key] = [Call(job.due_at, ended_at=job.due_at)]
            await asyncio.to_thread(story._thread.join, 60)
            return story

        return scenario()

    story = through_a_door(gateway.routes, use)
    assert story.failure is None
    assert story.killed is not None
    assert story.killed.pid == 4711
    assert story.summary is not None
    assert story.summary.received == SLOW // 2
    assert story.summary.recurring > 0
    assert story.summary.lost == story.summary.due - SLOW // 2
    recurring = [job.job_id for job in story.of_kind(Kind.CRON, Kind.INTERVAL)]
    assert sorted(gateway.deleted) == sorted(recurring)
    assert len(recurring) == 2
    assert story.after_kill is not None
    assert story.after_kill.all_done_s is None
    assert not story.good


def test_a_story_can_be_broken_off() -> None:
    async def never(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(600)
        return web.Response()

    def use(door: Door) -> Awaitable[Story]:
        async def scenario() -> Story:
            story = a_story(door._url)
            story.start()
            while not story.wanted:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(story.break_off)
            return story

        return scenario()

    story = through_a_door({"/v1/jobs": never, "/metrics": never}, use)
    assert story.over
    assert story.summary is None
    assert story.failure is None


def in_progress() -> Story:
    """A story of which one job of two has called, 3 ms late."""
    story = a_story(burst=2)
    story.wanted = 2
    story.created = {"a": made("a"), "b": made("b")}
    call = Call(1_003_000, ended_at=1_003_000)
    story.target.calls["a", 1_000_000] = [call]
    story.target.last_calls.append((("a", 1_000_000), call))
    return story


def shown(story: Story, refused: int = 0) -> str:
    output, jobs = io.StringIO(), list(story.created.values())
    states = {("a", 1_000_000): "SUCCEEDED"}
    summary = summarise(jobs, jobs, refused, story.target.calls, story.mailbox.arrivals, states)
    show_all(Terminal(Console(file=output, width=200)), story, summary)
    return output.getvalue()


def test_the_summary_shows_figures_and_why_creates_were_not_taken() -> None:
    story = in_progress()
    story.refusals = ["503: no broker"]
    story.commit_p50_s, story.commit_p99_s = 0.005, 0.025
    text = shown(story, refused=1)
    words = [line.split() for line in text.splitlines()]
    counts = {line[0]: line[1] for line in words if len(line) > 1}
    assert (counts["created"], counts["received"], counts["lost"], counts["succeeded"]) == ("2", "1", "1", "1")
    assert "503: no broker" in text
    assert "p50 3 ms, p99 3 ms, max 3 ms" in text
    assert "p50 up to 5 ms, p99 up to 25 ms" in text
    assert "No worker was killed" in text


def test_the_summary_shows_the_message_and_what_became_of_the_killed_workers_calls() -> None:
    story = in_progress()
    headers = {"tocsin-job-id": "a"}
    story.mailbox.first = Record("letters", 0, 7, "k", '{"hello":"x"}', headers)
    story.killed = Killed(4711, 0)
    story.after_kill = AfterKill(1, 2, 3, 5, 4, 0.9, 10.1, None)
    text = shown(story)
    assert "letters, partition 0, offset 7" in text
    assert "tocsin-job-id: a" in text
    assert "exactly once" in text
    assert "pid 4711" in text
    assert "5 of those begun were called again, 4 of them marked" in text
    assert "10.1 s after the kill" in text
    assert "never after the kill: all of them" in text


@pytest.mark.parametrize("terminal", [True, False])
def test_the_view_shows_how_things_stand(terminal: bool) -> None:
    output = io.StringIO()
    view = LiveView(Console(file=output, force_terminal=terminal, width=200), in_progress())
    view.draw()
    view.close()
    assert "2 of 2" in output.getvalue()


def test_a_terminal_that_is_gone_does_no_harm() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    terminal = Terminal(SteadyConsole(file=Gone()))
    terminal.said("x")
    terminal.failed(ValueError("y"))


def test_a_terminal_shows_the_servers_start_on_its_own_console(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    terminal.progress.say("kafka-1: starting")
    terminal.said("[not markup]")
    assert capsys.readouterr().out.splitlines() == ["kafka-1: starting", "[not markup]"]
