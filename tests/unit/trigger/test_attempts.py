"""What becomes of dispatched executions: retries, leases, returns, losses, silence; the owner is the arbiter."""

from __future__ import annotations

import pytest

from tests.unit.trigger.world import CODEC, World
from tocsin.domain.executions import AttemptError, Execution, ExecutionEvent
from tocsin.domain.fleet import Heartbeat
from tocsin.domain.instants import SECOND
from tocsin.domain.policies import RetryPolicy
from tocsin.domain.retries import is_retryable, loss_delay, retry_delay, return_delay
from tocsin.ports.fleet_log import SeenBeat
from tocsin.ports.shard_log import EVENTS

FIXED = {"max_attempts": 3, "backoff": "fixed", "base_s": 10, "jitter": "none"}


@pytest.fixture
def world() -> World:
    world = World()
    world.start()
    return world


def _latest(world: World) -> Execution:
    return world.executions()[-1]


def _events(world: World) -> list[ExecutionEvent]:
    return [CODEC.decode_event(record.value) for record in world.log.all(EVENTS)]


def _job(world: World, **fields: object) -> None:
    world.recur({"every_s": 100_000, "anchor_at": "2027-01-15T08:00:01Z"}, **fields)
    world.run(2)
    assert len(world.executions()) == 1


def test_a_report_that_knows_only_the_records_key_counts_by_attempt_and_token(world: World) -> None:
    _job(world, retry=FIXED)
    world.report(_latest(world), "FAILED")
    world.run(12)
    second = _latest(world)
    made_up = second.head._replace(losses=7, due_at=1)
    value = CODEC.encode_execution(made_up, second.target)
    world.report(CODEC.decode_execution(value))
    world.run(1)
    assert _events(world)[-1].state == "SUCCEEDED"
    assert _events(world)[-1].head == second.head


def test_a_failed_attempt_is_retried_when_its_delay_is_over(world: World) -> None:
    _job(world, retry=FIXED)
    world.report(_latest(world), "FAILED")
    world.run(9)
    assert len(world.executions()) == 1
    world.run(2)
    [first, second] = [e.head for e in world.executions()]
    assert (second.attempt, second.losses, second.execution_id) == (2, 0, first.execution_id)
    assert second.token > first.token
    [event] = _events(world)
    assert (event.state, event.attempt_state) == ("RETRY_SCHEDULED", "FAILED")
    assert event.retry_at == event.decided_at + 10 * SECOND


def test_attempts_end_after_the_last_one(world: World) -> None:
    _job(world, retry=FIXED)
    for _ in range(3):
        world.report(_latest(world), "FAILED")
        world.run(12)
    assert [e.head.attempt for e in world.executions()] == [1, 2, 3]
    assert [e.state for e in _events(world)] == ["RETRY_SCHEDULED", "RETRY_SCHEDULED", "DEAD"]
    assert _events(world)[-1].reason == "attempts_used_up"
    assert world.dead_letters() == ["execution"]


def test_what_cannot_go_better_is_not_retried(world: World) -> None:
    _job(world, retry=FIXED)
    world.report(_latest(world), "FAILED", error=AttemptError("status", "answered 404", 404))
    world.run(20)
    assert [e.reason for e in _events(world)] == ["not_retryable"]
    assert len(world.executions()) == 1


def test_a_retry_survives_a_takeover(world: World) -> None:
    _job(world, retry=FIXED)
    world.report(_latest(world), "FAILED")
    world.run(5)
    world.start()
    world.run(7)
    assert [e.head.attempt for e in world.executions()] == [1, 2]
    world.report(_latest(world))
    world.run(1)
    assert _events(world)[-1].state == "SUCCEEDED"


def test_while_it_waits_nothing_is_current(world: World) -> None:
    _job(world, retry=FIXED)
    world.report(_latest(world), "FAILED")
    world.run(1)
    world.report(_latest(world), "SUCCEEDED")
    world.run(1)
    assert [e.state for e in _events(world)] == ["RETRY_SCHEDULED"]


def test_a_pending_retry_counts_as_running(world: World) -> None:
    job = world.recur({"every_s": 5}, retry={**FIXED, "base_s": 60})
    world.run(6, step_s=1)
    world.report(_latest(world), "FAILED")
    world.run(10, step_s=1)
    assert world.fired() == [job]
    assert {e.reason for e in _events(world) if e.state == "SKIPPED"} == {"overlap"}


def test_a_lease_is_published_and_its_end_counts(world: World) -> None:
    _job(world)
    execution = _latest(world)
    world.report(execution, "RUNNING", error=None, timeout_s=100.0)
    world.report(execution, "RUNNING", error=None, timeout_s=100.0)
    world.run(60)
    assert [e.state for e in _events(world)] == ["RUNNING"], "published once"
    world.report(execution)
    world.run(1)
    assert [e.state for e in _events(world)] == ["RUNNING", "SUCCEEDED"]


def test_a_lease_without_an_end_expires_and_is_retried(world: World) -> None:
    _job(world, retry=FIXED)
    world.report(_latest(world), "RUNNING", error=None, timeout_s=20.0)
    world.run(1)
    world.start()
    world.run(45, step_s=1)
    assert [e.state for e in _events(world)] == ["RUNNING"], "the grace is not over"
    world.run(20, step_s=1)
    assert [(e.state, e.attempt_state) for e in _events(world)][1:] == [("RETRY_SCHEDULED", "TIMED_OUT")]
    assert [e.head.attempt for e in world.executions()] == [1, 2]


def test_an_end_that_is_in_the_log_wins_over_the_deadline(world: World) -> None:
    """The verdict waits until every report below the end of the log is applied."""
    _job(world)
    execution = _latest(world)
    world.report(execution, "RUNNING", error=None, timeout_s=1.0)
    world.run(1)
    world.shard_log.hide_reports = True
    world.report(execution)
    world.run(60, step_s=1)
    assert [e.state for e in _events(world)] == ["RUNNING"], "no verdict while reports are unread"
    world.shard_log.hide_reports = False
    world.run(1)
    assert [e.state for e in _events(world)] == ["RUNNING", "SUCCEEDED"]


def test_returned_work_that_may_have_run_is_marked_and_delayed_by_losses(world: World) -> None:
    _job(world)
    waits = []
    for _ in range(4):
        before, count = world.clock.now(), len(world.executions())
        world.report(_latest(world), "RETURNED", error=None, started="maybe", reason="predecessor")
        while len(world.executions()) == count:
            world.run(1, step_s=1)
        waits.append((world.clock.now() - before) // SECOND)
    assert [e.head.losses for e in world.executions()] == [0, 1, 2, 3, 4]
    assert {e.head.attempt for e in world.executions()} == {1}, "a loss is no attempt"
    assert waits == [1, 11, 61, 61] or waits == [1, 10, 60, 60]


def test_returned_work_that_did_not_start_costs_nothing(world: World) -> None:
    _job(world)
    world.report(_latest(world), "RETURNED", error=None, started="no", reason="stop")
    world.run(1)
    assert len(world.executions()) == 2, "a stopping worker's work goes on at once"
    world.report(_latest(world), "RETURNED", error=None, started="no", reason="breaker")
    world.run(8, step_s=1)
    assert len(world.executions()) == 2
    world.run(4, step_s=1)
    assert [(e.head.attempt, e.head.losses) for e in world.executions()] == [(1, 0)] * 3


def test_a_stale_worker_has_no_effect(world: World) -> None:
    """It holds the lease, is silent, runs the next dispatch too; then its first report arrives."""
    _job(world)
    first = _latest(world)
    world.report(first, "RUNNING", error=None, timeout_s=1000.0, worker_id="w")
    world.run(1)
    _beats(world, "w", until_s=0)
    world.run(5, step_s=1)
    second = _latest(world)
    assert (second.head.losses, second.head.attempt) == (1, 1)
    world.beats.arrived.append(SeenBeat(_heartbeat("w2"), world.clock.now() + 40 * SECOND))
    world.report(second, "RUNNING", error=None, timeout_s=1000.0, worker_id="w2")
    world.run(1)
    world.report(first)
    world.run(1)
    assert [e.state for e in _events(world)] == ["RUNNING", "RUNNING"], "still running under the second token"
    world.report(second)
    world.run(1)
    assert _events(world)[-1].state == "SUCCEEDED"


def _beats(world: World, holder: str, until_s: int) -> None:
    """Beat for 40 s of broker time: ourselves all along, the holder only until some second."""
    for second in range(0, 41, 5):
        at = world.clock.now() + second * SECOND
        beats = [SeenBeat(_heartbeat(world.name), at)]
        if second <= until_s:
            beats.append(SeenBeat(_heartbeat(holder), at))
        world.beats.arrived += beats


def _heartbeat(process_id: str, *, name: str | None = None, stopped: bool = False) -> Heartbeat:
    return Heartbeat(process_id, name or f"name of {process_id}", "worker", "host", "0", 0, stopped)


def test_a_predecessors_return_does_not_touch_a_living_lease(world: World) -> None:
    _job(world)
    execution = _latest(world)
    world.report(execution, "RUNNING", error=None, timeout_s=1000.0, worker_id="living")
    world.report(execution, "RETURNED", error=None, started="maybe", reason="predecessor", worker_id="successor")
    world.run(5)
    assert len(world.executions()) == 1
    world.report(execution, worker_id="living")
    world.run(1)
    assert _events(world)[-1].state == "SUCCEEDED"


@pytest.mark.parametrize(
    ("gaps", "holder_beats", "expected"),
    [
        ([5] * 8, 0, True),
        ([5] * 8, 3, False),
        ([5, 5, 5, 11, 5, 5, 5], 0, False),  # our own beats were held up: nothing counts before they are steady again
        ([5] * 5, 0, False),
    ],
)
def test_silence_is_judged_by_our_own_steady_beats(gaps: list[int], holder_beats: int, expected: bool) -> None:
    from tocsin.engine.fleet_watch import FleetWatch

    watch, at = FleetWatch("own"), 10**15
    watch.take([SeenBeat(_heartbeat("holder"), at), SeenBeat(_heartbeat("own"), at)])
    for n, gap in enumerate(gaps):
        at += gap * SECOND
        if n < holder_beats:
            watch.take([SeenBeat(_heartbeat("holder"), at)])
        watch.take([SeenBeat(_heartbeat("own"), at)])
    assert (watch.silent(["holder"]) == {"holder"}) is expected


def test_a_goodbye_counts_at_once_and_a_new_start_of_the_name_soon() -> None:
    from tocsin.engine.fleet_watch import FleetWatch

    watch = FleetWatch("own")
    watch.take([SeenBeat(_heartbeat("own"), 0), SeenBeat(_heartbeat("a", name="w"), 0), SeenBeat(_heartbeat("b"), 0)])
    watch.take([SeenBeat(_heartbeat("b", stopped=True), SECOND), SeenBeat(_heartbeat("own"), SECOND)])
    assert watch.silent(["a", "b"]) == {"b"}
    watch.take([SeenBeat(_heartbeat("a2", name="w"), 3 * SECOND)])
    watch.take([SeenBeat(_heartbeat("own"), n * SECOND) for n in (6, 11)])
    assert watch.silent(["a", "b"]) == {"a", "b"}


def test_a_trigger_that_hears_nothing_condemns_nobody() -> None:
    from tocsin.engine.fleet_watch import FleetWatch

    assert FleetWatch("own").silent(["anybody"]) == frozenset()


@pytest.mark.parametrize(
    ("kind", "error", "expected"),
    [
        ("TIMED_OUT", None, True),
        ("CANCELLED", None, False),
        ("FAILED", AttemptError("status", "", 503), True),
        ("FAILED", AttemptError("status", "", 429), True),
        ("FAILED", AttemptError("status", "", 408), True),
        ("FAILED", AttemptError("status", "", 404), False),
        ("FAILED", AttemptError("redirect", "", 302), False),
        ("FAILED", AttemptError("blocked", ""), False),
        ("FAILED", AttemptError("connection_refused", ""), True),
    ],
)
def test_which_errors_are_worth_another_attempt(kind: str, error: AttemptError | None, expected: bool) -> None:
    from tocsin.domain.executions import ReportKind

    assert is_retryable(ReportKind(kind), error) is expected


def test_delays_stay_in_their_bounds_and_replays_agree() -> None:
    policy = RetryPolicy(10**6, "exponential", 300.0, 3600.0, "full")
    for attempt, bound in ((1, 300), (2, 600), (3, 1200), (4, 2400), (5, 3600), (1017, 3600), (10**6, 3600)):
        delays = {retry_delay(policy, f"e{n}", attempt) for n in range(200)}
        assert min(delays) >= 0 and max(delays) <= bound * SECOND
        assert max(delays) > 0.9 * bound * SECOND and min(delays) < 0.1 * bound * SECOND
        assert retry_delay(policy, "e", attempt) == retry_delay(policy, "e", attempt)
    assert retry_delay(RetryPolicy(jitter="none", backoff="linear", base_s=5, max_s=12), "e", 2) == 10 * SECOND


@pytest.mark.parametrize(
    ("asked", "expected"), [(120.0, 120), (-5.0, 10), (999_999_999.0, 1800), (None, 10), (2000.0, 1800)]
)
def test_a_target_may_ask_for_more_patience_up_to_the_cap(asked: float | None, expected: int) -> None:
    policy = RetryPolicy(5, "fixed", 10.0, 1800.0, "none")
    assert retry_delay(policy, "e", 1, asked) == expected * SECOND


def test_losses_and_returns_wait_longer_each_time() -> None:
    assert [loss_delay(n) // SECOND for n in (1, 2, 3, 4, 100)] == [0, 10, 60, 60, 60]
    assert [return_delay(n) // SECOND for n in (1, 2, 3, 5, 6, 1000)] == [10, 20, 40, 160, 300, 300]
