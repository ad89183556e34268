"""The demonstration's plan, figures, target and verdict, without a system."""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from rich.console import Console

from tocsin.dev.audience import SteadyConsole, Terminal
from tocsin.dev.demo.door import Door, buckets, each, session, total
from tocsin.dev.demo.plan import BURST, BURST_AFTER_S_MAX, BURST_AFTER_S_MIN, SPREAD, Wanted, burst_jobs, spread_jobs
from tocsin.dev.demo.story import Story
from tocsin.dev.demo.tally import (
    CLASSES_MAX,
    Created,
    Summary,
    bucket_bound,
    class_width,
    described,
    histogram,
    percentile,
    summarise,
)
from tocsin.dev.demo.target import DemoTarget
from tocsin.dev.demo.view import LiveView, lateness_so_far, show_summary, standing
from tocsin.dev.doors import HOST
from tocsin.domain.ids import execution_id
from tocsin.domain.instants import SECOND

NOW = 1_795_976_149_749_001


def test_the_thousand_are_due_in_one_whole_second_that_leaves_time_to_create_them() -> None:
    for rate in (0.0, 50.0, 100.0, 1e6):
        jobs = burst_jobs(NOW, rate)
        assert len(jobs) == BURST
        (due_at,) = {job.due_at for job in jobs}
        assert due_at % SECOND == 0
        ahead_s = (due_at - NOW) / SECOND
        assert BURST_AFTER_S_MIN <= ahead_s <= BURST_AFTER_S_MAX + 1
        if rate == 50.0:
            assert ahead_s > BURST / rate


def test_the_first_ones_are_due_one_after_another() -> None:
    due = [job.due_at for job in spread_jobs(NOW)]
    assert len(due) == SPREAD
    assert due == sorted(set(due))
    assert due[0] > NOW + SECOND


def made(job_id: str, due_at: int = 1_000_000, **fields: Any) -> Created:
    return Created(job_id, due_at, **{"burst": True, "answered_at": 0, **fields})


def test_a_summary_of_a_good_run() -> None:
    jobs = [made("a"), made("b", burst=False)]
    arrivals = {"a": [1_002_000], "b": [1_001_000]}
    summary = summarise(jobs, 0, arrivals, {"a": "SUCCEEDED", "b": "SUCCEEDED"})
    assert summary == Summary(
        created=2,
        undecided=0,
        refused=0,
        fired=2,
        succeeded=2,
        failed=0,
        received=2,
        calls=2,
        repeated=0,
        early=0,
        lost=0,
        created_late=0,
        lateness_ms=(1.0, 2.0),
        burst_lateness_ms=(2.0,),
    )
    assert summary.good


@pytest.mark.parametrize(
    ("arrivals", "states", "refused", "count"),
    [
        ({"a": [999_999]}, {"a": "SUCCEEDED"}, 0, "early"),
        ({}, {"a": "SUCCEEDED"}, 0, "lost"),
        ({"a": [1_000_000]}, {"a": "DEAD"}, 0, "failed"),
        ({"a": [1_000_000]}, {"a": "SUCCEEDED"}, 1, "refused"),
        ({"a": [1_000_000]}, {"a": "QUEUED"}, 0, "fired"),
        ({"a": [1_000_000]}, {}, 0, "received"),
    ],
)
def test_what_makes_a_run_bad(arrivals: dict[str, list[int]], states: dict[str, str], refused: int, count: str) -> None:
    summary = summarise([made("a")], refused, arrivals, states)
    assert getattr(summary, count) == 1
    assert not summary.good


def test_a_run_in_which_nothing_was_created_is_bad() -> None:
    assert not summarise([], 0, {}, {}).good


def test_repeats_are_counted_and_the_first_call_measures_the_lateness() -> None:
    summary = summarise([made("a")], 0, {"a": [1_003_000, 1_009_000]}, {"a": "SUCCEEDED"})
    assert (summary.repeated, summary.calls, summary.received) == (1, 2, 1)
    assert summary.lateness_ms == (3.0,)


def test_what_was_created_after_its_time_says_nothing_of_lateness() -> None:
    summary = summarise([made("a", answered_at=2_000_000)], 0, {"a": [2_001_000]}, {"a": "SUCCEEDED"})
    assert summary.created_late == 1
    assert summary.lateness_ms == ()
    assert described(summary.lateness_ms) == "none measured"


def test_percentiles_are_values_that_occurred() -> None:
    ordered = [float(n) for n in range(1, 101)]
    assert [percentile(ordered, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 50.0, 99.0, 100.0]
    assert percentile([7.0], 0.5) == 7.0


@pytest.mark.parametrize("values", [[0.2], [3.0, 3.0, 11.0], [626.0, 1_494.0, 12.5], [-3.0, 4.0], [90_000.0, 1.0]])
def test_a_histogram_counts_everything_in_few_lines(values: list[float]) -> None:
    lines = histogram(values)
    assert 1 <= len(lines) <= CLASSES_MAX
    assert sum(int(line.split(" ms ")[1].split()[0]) for line in lines) == len(values)
    assert max(line.count("█") for line in lines) > 0


def test_a_histogram_of_nothing_is_empty_and_classes_are_round() -> None:
    assert histogram([]) == []
    assert class_width(0.0, 1_494.0) == 200
    assert class_width(5.0, 5.0) == 1


def test_a_bound_of_a_prometheus_histogram() -> None:
    samples = [({"le": "+Inf"}, 10.0), ({"le": "0.1"}, 9.0), ({"le": "0.01"}, 4.0)]
    ascending = buckets(samples)
    assert ascending == [(0.01, 4.0), (0.1, 9.0), (math.inf, 10.0)]
    assert bucket_bound(ascending, 0.4) == 0.01
    assert bucket_bound(ascending, 0.5) == 0.1
    assert bucket_bound(ascending, 0.99) == math.inf
    assert bucket_bound([], 0.5) is None
    assert bucket_bound([(math.inf, 0.0)], 0.5) is None
    assert total([({}, 2.0), ({"state": "x"}, 3.0)]) == 5


def test_the_target_counts_by_key() -> None:
    async def scenario() -> tuple[DemoTarget, list[int]]:
        target = DemoTarget()
        await target.start(HOST)
        statuses = []
        async with session() as client:
            for key in (execution_id("job_1", 2, 3), execution_id("job_1", 2, 3), "nonsense", None):
                headers = {"Idempotency-Key": f'"{key}"'} if key else {}
                async with client.post(target.url, headers=headers) as answer:
                    statuses.append(answer.status)
        await target.stop()
        return target, statuses

    target, statuses = asyncio.run(scenario())
    assert statuses == [200, 200, 400, 400]
    assert list(target.arrivals) == ["job_1"]
    assert len(target.arrivals["job_1"]) == 2
    assert target.strangers == 2


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


@pytest.mark.parametrize(("status", "decided"), [(201, True), (202, False)])
def test_a_job_that_is_taken(status: int, decided: bool) -> None:
    async def take(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"job_id": "job_7"}, status=status)

    wanted = Wanted("x", NOW, burst=True)
    created = through_a_door({"/v1/jobs": take}, lambda door: door.create(wanted, "http://t"))
    assert (created.job_id, created.due_at, created.burst, created.decided) == ("job_7", NOW, True, decided)


def test_a_job_that_is_not_taken_says_why() -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"detail": "run_at is naive"}, status=422)

    why = through_a_door({"/v1/jobs": refuse}, lambda door: door.create(Wanted("x", NOW, True), "http://t"))
    assert why == "422: run_at is naive"


@pytest.mark.parametrize(
    ("status", "runs", "state"), [(200, [{"state": "DEAD"}], "DEAD"), (200, [], None), (503, [], None)]
)
def test_the_state_of_a_run(status: int, runs: list[dict[str, str]], state: str | None) -> None:
    async def read(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"runs": runs}, status=status)

    assert through_a_door({"/v1/jobs/job_7/runs": read}, lambda door: door.state("job_7")) == state


def test_a_story_against_a_gateway_that_refuses_everything_ends_with_a_bad_summary() -> None:
    story = Story("http://127.0.0.1:9", "http://127.0.0.1:9/metrics")
    story.start()
    story._thread.join(60)
    assert story.over
    assert story.failure is None
    assert story.summary is not None
    assert story.summary.refused == SPREAD + BURST
    assert not story.summary.good
    assert "created 0 of 1024" in standing(story)
    assert lateness_so_far(story) == []


def test_a_story_can_be_broken_off() -> None:
    async def never(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(600)
        return web.Response()

    def use(door: Door) -> Awaitable[Story]:
        async def scenario() -> Story:
            story = Story(door._url, f"{door._url}/metrics")
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
    story = Story("http://127.0.0.1:9", "http://127.0.0.1:9/metrics", burst=2)
    story.wanted = 2
    story.created = {"a": made("a"), "b": made("b")}
    story.target.arrivals["a"] = [1_003_000]
    story.target.last_calls.append(("a", 1_003_000))
    return story


def test_the_summary_shows_figures_and_why_creates_were_not_taken() -> None:
    story, output = in_progress(), io.StringIO()
    story.refusals = ["503: no broker"]
    story.commit_p50_s, story.commit_p99_s = 0.005, 0.025
    summary = summarise(list(story.created.values()), 1, story.target.arrivals, {"a": "SUCCEEDED"})
    show_summary(Terminal(Console(file=output, width=200)), story, summary)
    text = output.getvalue()
    words = [line.split() for line in text.splitlines()]
    counts = {line[0]: line[1] for line in words if len(line) > 1}
    assert (counts["created"], counts["received"], counts["lost"], counts["succeeded"]) == ("2", "1", "1", "1")
    assert "503: no broker" in text
    assert "p50 3 ms, p99 3 ms, max 3 ms" in text
    assert "p50 up to 5 ms, p99 up to 25 ms" in text


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
