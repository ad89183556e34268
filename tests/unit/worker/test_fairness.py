"""Tenants take turns, none takes all of the room, and what waits behind a share holds nobody else up."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.unit.worker.worker_world import Worker, World
from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.engine.offset_window import OffsetWindow
from tocsin.roles.worker import WorkerLimits, fairness
from tocsin.roles.worker.fairness import RUN_MAX, Shares, Waiting
from tocsin.roles.worker.partitions import Item, Partition

DEFAULT = WorkerLimits()
REFUSED = AttemptError("connection_refused", "nobody listens")


def shared(partitions: int = 1, **limits: object) -> World:
    """Make a world whose tenants share the room."""
    return World(partitions, **{"tenant_running_max": None, **limits})


def as_in_production(partitions: int = 1) -> World:
    world = World(partitions)
    world.limits = DEFAULT
    return world


def test_one_tenant_alone_leaves_half_of_the_room() -> None:
    world = shared(running_max=10)
    world.dispatch(*(f"a{n}" for n in range(20)))
    worker = world.worker()
    worker.steps(5)
    assert len(worker.started) == 5


def test_tenants_that_take_all_they_can_still_leave_something() -> None:
    world = shared(partitions=4, running_max=12, read_ahead_records_max=1_000)
    for number, tenant in enumerate(("x", "y", "z")):
        world.dispatch(*(f"{tenant}{n}" for n in range(20)), tenant=tenant, partition=number)
    worker = world.worker()
    worker.steps(5)
    assert sorted(name[0] for name in worker.started) == ["x"] * 3 + ["y"] * 3 + ["z"] * 3
    world.dispatch("late", tenant="w", partition=3)
    worker.steps(2)
    assert "late" in worker.started


def test_a_process_for_one_attempt_runs_one() -> None:
    world = shared(running_max=1)
    world.dispatch("a", "b")
    worker = world.worker()
    worker.steps(3)
    assert worker.started == ["a"]
    worker.runner.finish_all()
    worker.steps(3)
    assert worker.started == ["a", "b"]


def test_a_setting_bounds_each_tenant() -> None:
    world = shared(running_max=10, tenant_running_max=2)
    world.dispatch("a0", "a1", "a2", "a3")
    world.dispatch("b0", "b1", "b2", tenant="other")
    worker = world.worker()
    worker.steps(3)
    assert worker.started == ["a0", "b0", "a1", "b1"]


def test_tenants_take_turns_whatever_their_number_of_partitions() -> None:
    world = World(partitions=4, running_max=6, tenant_running_max=6, read_ahead_records_max=1_000)
    for partition in range(3):
        world.dispatch(*(f"a{partition}{n}" for n in range(9)), partition=partition)
    world.dispatch(*(f"b{n}" for n in range(9)), partition=3, tenant="other")
    worker = world.worker()
    worker.steps(2)
    assert sorted(name[0] for name in worker.started) == ["a"] * 3 + ["b"] * 3
    for _ in range(6):
        worker.runner.finish(worker.runner.running[0])
        worker.steps(2)
    assert abs(sum(name[0] == "a" for name in worker.started) - 6) <= 1


def test_what_hangs_for_one_tenant_does_not_delay_another_behind_5000_of_its_executions() -> None:
    """The bad tenant's target hangs throughout: not one of its attempts ends."""
    world = as_in_production()
    world.dispatch(*(f"bad{n}" for n in range(5_000)), tenant="bad", timeout_s=60)
    world.dispatch("good", tenant="good")
    worker = world.worker()
    before_s, steps = world.clock.seconds, 0
    while "good" not in worker.started:
        worker.steps()
        steps += 1
        world.clock.seconds += 0.01
        assert steps <= 50
    assert world.clock.seconds - before_s < 2
    assert len(worker.started) == DEFAULT.running_max // 2 + 1
    assert worker.meter.counts.get("returned cap", 0) == 0, "the window has room for them: nothing is moved about"


def test_what_fails_for_one_tenant_does_not_delay_another_behind_5000_of_its_executions() -> None:
    """The bad tenant's target refuses every connection: its breaker opens, and no attempt is burnt on the rest."""
    world = as_in_production()
    world.dispatch(*(f"bad{n}" for n in range(5_000)), tenant="bad", url="http://down.test/")
    world.dispatch("good", tenant="good")
    worker = world.worker()
    steps = 0
    while "good" not in worker.started:
        worker.steps()
        worker.runner.finish(*worker.runner.running, kind=ReportKind.FAILED, error=REFUSED)
        steps += 1
        world.clock.seconds += 0.01
        assert steps <= 200
    assert len(worker.started) <= DEFAULT.running_max, "attempts stop, and work goes back instead"


def served_behind(world: World, ahead: int) -> Worker:
    """Dispatch one of a good tenant behind so many of a bad one, and return its worker once that has started."""
    world.dispatch(*(f"bad{n}" for n in range(ahead)), tenant="bad")
    world.dispatch("good", tenant="good")
    worker = world.worker()
    for _ in range(100):
        worker.steps()
        world.clock.seconds += 0.05
        if "good" in worker.started:
            break
    assert "good" in worker.started
    return worker


def test_capped_work_that_holds_the_window_goes_back_without_having_started() -> None:
    world = shared(running_max=10, window_max=64, lease_after_s=1.0, read_ahead_records_max=1_000)
    worker = served_behind(world, 200)
    returned = [r for r in worker.reports if r.kind == ReportKind.RETURNED]
    assert returned and {(r.reason, r.started, r.started_at) for r in returned} == {("cap", "no", None)}
    assert {r.head.tenant_id for r in returned} == {"bad"}
    begun = {report.head.job_id for report in worker.reports if report.kind == ReportKind.RUNNING}
    assert not begun & {r.head.job_id for r in returned}


def test_capped_work_that_holds_the_bytes_goes_back_but_not_what_starts_soon() -> None:
    world = shared(running_max=10, read_ahead_bytes_max=20_000, read_ahead_records_max=50)
    worker = served_behind(world, 300)
    assert worker.meter.counts["returned cap"] >= 100


def test_work_that_goes_on_well_is_never_given_back() -> None:
    """A burst of one tenant through a full read-ahead: what would start here soon stays here."""
    world = shared(running_max=10, read_ahead_bytes_max=20_000, read_ahead_records_max=20)
    world.dispatch(*(f"j{n}" for n in range(300)))
    worker = world.worker()
    for _ in range(400):
        worker.steps()
        worker.runner.finish_all()
        world.clock.seconds += 0.05
    assert (len(worker.started), len(worker.reports)) == (300, 300)
    assert {report.kind for report in worker.reports} == {ReportKind.SUCCEEDED}


def test_a_short_hold_up_gives_nothing_back() -> None:
    world = shared(running_max=10, window_max=64, read_ahead_records_max=1_000)
    world.dispatch(*(f"bad{n}" for n in range(200)), tenant="bad")
    worker = world.worker()
    for _ in range(9):
        worker.steps()
        world.clock.seconds += 0.05
    assert worker.reports == []


def test_what_is_to_go_back_is_marked_first_and_a_successor_returns_it_too() -> None:
    """Killed between the report and its settling: the successor must not run what the owner sends out again."""
    world = shared(running_max=4, window_max=64, read_ahead_records_max=1_000)
    world.dispatch(*(f"bad{n}" for n in range(100)), tenant="bad")
    first = world.worker()
    first.steps(2)
    world.clock.seconds += 1
    first.steps()
    first.sink.held = True
    world.clock.seconds += 1
    for _ in range(3):
        first.steps()
    given_back = {"bad2", "bad3", "bad4"}
    world.lane.expel(first.log)
    second = world.worker("w2")
    second.steps(4)
    assert not given_back & set(second.started)
    assert given_back <= {r.head.job_id for r in second.reports if r.reason == "predecessor"}


def test_a_record_without_a_key_shares_with_others_without_one() -> None:
    world = shared(running_max=4)
    world.dispatch("a")
    value = world.lane.logs[0][0].value
    for _ in range(3):
        world.lane.append(0, None, value)
    worker = world.worker()
    worker.steps(3)
    assert worker.started == ["a", "a", "a"]


def test_a_partition_that_goes_takes_its_waiting_work_with_it() -> None:
    world = shared(partitions=2, running_max=2)
    world.dispatch("a0", "a1", "a2", partition=0)
    world.dispatch("b0", "b1", partition=1)
    worker = world.worker()
    worker.steps()
    assert worker.started == ["a0"]
    world.worker("w2").steps()
    worker.steps()
    worker.runner.finish_all()
    worker.steps(3)
    assert worker.started == ["a0", "a1"], "what waited of the other partition is the other worker's"


@pytest.mark.parametrize("tenants", [2, 7])
def test_nothing_is_forgotten_and_nothing_runs_twice(tenants: int) -> None:
    world = shared(partitions=3, running_max=6, window_max=64, read_ahead_records_max=50)
    for number in range(300):
        world.dispatch(f"j{number}", tenant=f"t{number % tenants}", partition=number % 3)
    worker = world.worker()
    for turn in range(2_000):
        worker.steps()
        world.clock.seconds += 0.01
        if turn % 3 == 0:
            worker.runner.finish(*[a for n, a in enumerate(worker.runner.running) if (turn + n) % 2])
    worker.runner.finish_all()
    worker.steps(5)
    reported = [report.head.job_id for report in worker.reports if report.kind != ReportKind.RUNNING]
    assert sorted(reported) == sorted(f"j{number}" for number in range(300))
    assert [world.offset(partition) for partition in range(3)] == [100, 100, 100]


def marked_of(seed: int, tenant_running_max: int | None, begun_max: int) -> tuple[Counter[bytes], int]:
    """Let tenants of different sizes, some of whose work is under way, share room; return what each has then."""
    chance = Random(seed)
    windows = [OffsetWindow(0, begun_max=begun_max) for _ in range(4)]
    partitions = [Partition(number, 1, window) for number, window in enumerate(windows)]
    waiting, shares = Waiting(), Shares(chance.randrange(50, 400), tenant_running_max)
    tenants = [b"t%d" % number for number in range(chance.randrange(1, 7))]
    under_way = [Item(partitions[0], 0, None, None, False, chance.choice(tenants)) for _ in range(chance.randrange(40))]
    shares.count(under_way)
    for tenant in tenants:
        mine = chance.sample(partitions, chance.randrange(1, 5))
        for _ in range(chance.randrange(300)):
            partition = chance.choice(mine)
            offset = partition.window.position
            partition.window.received(offset)
            waiting.add(Item(partition, offset, None, None, False, tenant))
    waited = sum(map(waiting.of, tenants))
    marked = waiting.mark(shares)
    assert len(marked) == waited - sum(map(waiting.of, tenants))
    assert [shares.of(tenant) for tenant in tenants] == [
        sum(item.tenant == tenant for item in [*under_way, *marked]) for tenant in tenants
    ]
    return Counter(item.tenant for item in marked), shares.room


@pytest.mark.parametrize("tenant_running_max", [None, 60, 1_000])
def test_marks_in_runs_share_the_room_as_single_ones_do(
    tenant_running_max: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where begun lists are what is short, a tenant may be ahead by the runs that others did not get."""
    in_runs = [marked_of(seed, tenant_running_max, 500) for seed in range(40)]
    short = [marked_of(seed, tenant_running_max, 20) for seed in range(40)]
    monkeypatch.setattr(fairness, "RUN_MAX", 1)
    assert in_runs == [marked_of(seed, tenant_running_max, 500) for seed in range(40)]
    for seed, (run, _) in enumerate(short):
        single, _ = marked_of(seed, tenant_running_max, 20)
        assert all(abs(run[tenant] - single[tenant]) <= 2 * RUN_MAX for tenant in run | single)
