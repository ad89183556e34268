"""The cases LEA-* and REB-*, and attempts that outlast whatever happens around them, on a real broker.

The owner is turned by the test, workers are processes, and time is scaled down; see ``work_world``.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from confluent_kafka import Producer

from tests.http_receiver import HttpReceiver
from tests.integration.kafka_wire import PRODUCE, REQUEST, Wire
from tests.integration.lane_world import LaneWorld, WorkerProcess, wait_until, worker_processes
from tests.integration.owner_world import CODEC, Owner
from tests.integration.work_world import WorkWorld
from tocsin.adapters.kafka.shard_log import Sent
from tocsin.devcluster import DevCluster, Endpoints
from tocsin.domain.executions import ExecutionEvent
from tocsin.domain.fleet import Cancel
from tocsin.domain.instants import MINUTE, Micros
from tocsin.engine.offset_metadata import decode_marks
from tocsin.ports.shard_log import SHARD_STATE, ShardTurn

pytestmark = pytest.mark.real

TWO_MINUTES_AHEAD = "import time; real = time.time_ns; time.time_ns = lambda: real() + 120 * 10**9\n"
HOUR = 60 * MINUTE
POLLS_EVERY_5_S = "from tocsin.adapters.kafka import dispatch_log; dispatch_log.LOOP_SILENCE_MAX_MS = 5_000\n"


@pytest.fixture
def world(cluster: Endpoints, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkWorld]:
    made = WorkWorld(cluster.kafka_bootstrap, unique, tmp_path, monkeypatch)
    yield made
    made.close()


def states(events: list[ExecutionEvent]) -> list[tuple[str, int, int]]:
    """Return state, attempt and losses of each."""
    return [(event.state, event.head.attempt, event.head.losses) for event in events]


def test_lea_1_a_worker_that_was_silent_runs_both_dispatches_and_only_the_second_counts(world: WorkWorld) -> None:
    worker = world.start_worker("w")
    job = world.run()
    world.until("the lease", lambda: states(world.events(job)) == [("RUNNING", 1, 0)])
    worker.process.send_signal(signal.SIGSTOP)
    world.until("the next dispatch", lambda: world.fired()[job] == 2)
    worker.process.send_signal(signal.SIGCONT)
    world.until("it to run that too", lambda: len(world.target.calls) == 2)
    world.until("the second lease", lambda: len(world.events(job)) == 2)
    first, second = world.target.calls
    assert int(first.headers["Tocsin-Token"]) < int(second.headers["Tocsin-Token"])
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert ("Tocsin-Redelivered" in first.headers, second.headers["Tocsin-Redelivered"]) == (False, "true")

    world.target.let_go(first)
    world.until("its report", lambda: [r.kind for r in world.reports()].count("SUCCEEDED") == 1)
    world.until("the owner to know it", world.all_reports_applied)
    assert states(world.events(job)) == [("RUNNING", 1, 0), ("RUNNING", 1, 1)], "stale: still running"
    world.target.let_go(second)
    world.until("the end", lambda: len(world.events(job)) == 3)
    assert states(world.events(job))[-1] == ("SUCCEEDED", 1, 1)
    assert world.events(job)[-1].head.token == int(second.headers["Tocsin-Token"])


def test_lea_3_a_holder_whose_beats_are_held_up_loses_its_lease_by_the_brokers_time(world: WorkWorld) -> None:
    """Its clock is two minutes ahead: were it asked, it would have lost the lease at once, or never."""
    wire = Wire(world.bootstrap)
    try:
        world.start_worker("w", altered=TWO_MINUTES_AHEAD, bootstrap=wire.bootstrap)
        job = world.run()
        world.until("the lease", lambda: states(world.events(job)) == [("RUNNING", 1, 0)])
        world.until_beats(3, "w")
        assert world.fired()[job] == 1
        wire.rule(PRODUCE, REQUEST, naming=world.names.fleet)
        world.until("the next dispatch", lambda: world.fired()[job] == 2)
        wire.mend()
        world.until("both to be called", lambda: len(world.target.calls) == 2)
        first, second = world.target.calls
        assert int(first.headers["Tocsin-Token"]) < int(second.headers["Tocsin-Token"])
        world.target.let_go(first)
        world.until("its report", lambda: [r.kind for r in world.reports()].count("SUCCEEDED") == 1)
        world.until("the owner to know it", world.all_reports_applied)
        assert {event.state for event in world.events(job)} == {"RUNNING"}, "the old report is stale"
        world.target.let_go(second)
        world.until("the end", lambda: states(world.events(job))[-1] == ("SUCCEEDED", 1, 1))
    finally:
        wire.close()


def test_reb_1_what_a_killed_worker_had_begun_is_dispatched_again_with_the_next_token(world: WorkWorld) -> None:
    first = world.start_worker("first", running_max=1, lease_after_s=600)
    begun = world.run()
    world.until("it to begin", lambda: len(world.target.calls) == 1)
    waiting = [world.run() for _ in range(2)]
    world.until("the others to wait", lambda: len(world.fired()) == 3)
    first.kill()
    world.target.all_let_go = True
    second = world.start_worker("second", running_max=10)
    world.until("all to succeed", lambda: all(states(world.events(job))[-1:] for job in (begun, *waiting)))
    world.until("the first to succeed too", lambda: states(world.events(begun))[-1:] == [("SUCCEEDED", 1, 1)])
    assert [states(world.events(job)) for job in waiting] == [[("SUCCEEDED", 1, 0)]] * 2
    (returned,) = [report for report in world.reports() if report.kind == "RETURNED"]
    assert (returned.head.job_id, returned.started, returned.reason) == (begun, "maybe", "predecessor")
    assert returned.worker_id == second.wait_ready()["process_id"]
    assert world.events(begun)[-1].head.token > returned.head.token
    assert len(world.target.calls) == 4


async def _done(_: web.Request) -> web.StreamResponse:
    return web.Response(text="done")


class Holed:
    """Partitions of a lane as a worker leaves them: of ten on two of them seven are done.

    On the first the eighth waits, for its tenant has all that it may under way, the ninth runs, and the tenth waits. On
    the second all three wait.
    """

    def __init__(self, bootstrap: str, unique: str, directory: Path, start: Callable[..., WorkerProcess]) -> None:
        self.lane, self.receiver = LaneWorld(bootstrap, unique), HttpReceiver({"/done": _done})
        self._directory, self._start = directory, start
        self.worker = self.start("first", tenant_running_max=1, lease_after_s=600, stop_grace_s=60)
        self.worker.wait_ready()
        self._send("gated", 2, ["hold"], tenant="capped")
        for partition in (0, 1):
            self._send("done", partition, [f"{partition}-{n}" for n in range(7)])
        wait_until(lambda: len(self.lane.reports()) == 14, "seven of each to be done")
        self._send("done", 0, ["0-7"], tenant="capped")
        self._send("gated", 0, ["0-8"])
        wait_until(lambda: self.lane.begun() == {"hold", "0-8"}, "what is to run to begin")
        self._send("done", 0, ["0-9"])
        self._send("done", 1, ["1-7", "1-8", "1-9"])

    def _send(self, path: str, partition: int, jobs: list[str], tenant: str = "default") -> None:
        self.lane.dispatch(f"{self.receiver.url}/{path}", jobs, partition=partition, tenant=tenant)

    def start(self, name: str, **settings: object) -> WorkerProcess:
        return self._start(self.lane, self._directory, name, **settings)

    def left(self, partition: int) -> tuple[list[str], set[str]]:
        """Return what a commit leaves to whoever comes next, and what of it has begun."""
        offset, metadata = self.lane.committed()[partition]
        marks = decode_marks(metadata)
        places = [(at, job) for (number, at), job in sorted(self.lane.at.items()) if number == partition]
        begun = {job for at, job in places if at - offset in marks.begun}
        return [job for at, job in places if at >= offset and at - offset not in marks.settled | marks.begun], begun

    def called(self) -> Counter[str]:
        return Counter(call.headers["Tocsin-Job-Id"] for call in self.receiver.calls)


@pytest.fixture
def holed(cluster: Endpoints, unique: str, tmp_path: Path) -> Iterator[Holed]:
    with worker_processes() as start:
        made = Holed(cluster.kafka_bootstrap, unique, tmp_path, start)
        try:
            yield made
        finally:
            made.receiver.gate.set()
            made.receiver.close()


REST = ["0-7", "0-9", "1-7", "1-8", "1-9"]


def test_reb_1_at_a_revoke_what_runs_stays_and_what_waits_goes(holed: Holed) -> None:
    holed.worker.process.terminate()
    wait_until(lambda: '"worker.revoked"' in holed.worker.log.read_text(), "the revoke")
    assert holed.left(0) == (["0-7", "0-9"], set())
    assert holed.left(1) == (["1-7", "1-8", "1-9"], set()), "committed is the eighth"
    second = holed.start("second")
    wait_until(lambda: set(REST) <= set(holed.called()), "the rest to run elsewhere")
    assert holed.worker.process.poll() is None, "it goes on with what it runs"
    holed.receiver.gate.set()
    assert holed.worker.process.wait(60) == 0
    assert second.stop() == 0
    kinds = [(report.head.job_id, report.kind) for report in holed.lane.reports()]
    assert {job for job, kind in kinds if kind == "RUNNING"} == {"hold", "0-8"}, "under leases"
    everything = sorted(["hold", *(f"{partition}-{n}" for partition in (0, 1) for n in range(10))])
    assert sorted(job for job, kind in kinds if kind == "SUCCEEDED") == everything
    assert holed.called() == Counter(everything), "nothing ran twice"


def test_reb_1_what_a_killed_worker_had_begun_is_told_as_lost_and_only_the_rest_runs(holed: Holed) -> None:
    holed.worker.kill()
    assert holed.left(0) == (["0-7", "0-9"], {"0-8"})
    second = holed.start("second")
    wait_until(lambda: set(REST) <= set(holed.called()), "the rest to run elsewhere")
    told = {"hold", "0-8"}
    wait_until(lambda: {r.head.job_id for r in holed.lane.reports() if r.kind == "RETURNED"} == told, "what was begun")
    assert second.stop() == 0
    returned = [report for report in holed.lane.reports() if report.kind == "RETURNED"]
    assert {(report.started, report.reason) for report in returned} == {("maybe", "predecessor")}
    assert set(holed.called().values()) == {1}, "only its owner may have it run again"


def test_reb_3_a_task_longer_than_the_longest_time_between_polls_completes_once(
    cluster: Endpoints, unique: str, tmp_path: Path
) -> None:
    """A task of seven minutes, polls at most five apart, and two workers: here in seconds."""
    lane, receiver = LaneWorld(cluster.kafka_bootstrap, unique), HttpReceiver()
    workers = [WorkerProcess(lane, tmp_path, name, altered=POLLS_EVERY_5_S, lease_after_s=600) for name in ("a", "b")]
    try:
        for worker in workers:
            worker.wait_ready()
        lane.dispatch(f"{receiver.url}/gated", ["long"], partition=0)
        wait_until(lambda: len(receiver.calls) == 1, "it to begin")
        begun = lane.begun()
        time.sleep(7)
        assert begun == lane.begun() == {"long"}, "nobody has taken it over"
        receiver.gate.set()
        wait_until(lambda: lane.begun() == set(), "its end to be settled")
        assert [worker.stop() for worker in workers] == [0, 0]
        assert [(report.head.job_id, report.kind) for report in lane.reports()] == [("long", "SUCCEEDED")]
        assert len(receiver.calls) == 1
        assert not any('"worker.lost"' in worker.log.read_text() for worker in workers)
    finally:
        receiver.gate.set()
        for worker in workers:
            if worker.process.poll() is None:
                worker.kill()
        receiver.close()


def stamp_states(owner: Owner, timestamp: Micros, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an owner stamp what it writes of its shards' states."""
    produce_all = owner.log._produce_all

    def stamped(producer: Producer, turn: ShardTurn, sent: Sent) -> None:
        records = [r._replace(timestamp=timestamp) if r.topic == SHARD_STATE else r for r in turn.records]
        produce_all(producer, replace(turn, records=records), sent)

    monkeypatch.setattr(owner.log, "_produce_all", stamped)


def test_reb_5_caught_up_means_the_end_of_the_log_whatever_its_records_are_stamped_with(
    world: WorkWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner and a worker that begin anew read past records of the next hour, to the true end.

    The former owner's clock was ahead, so all of its states are stamped so.
    """
    ahead = world.clock.now() + HOUR - MINUTE
    stamp_states(world.owner, ahead, monkeypatch)
    early, late = world.new_id(), world.new_id()
    target = {"type": "http", "url": f"{world.target.server.url}/held"}
    for job, stamp in ((early, ahead), (late, None)):
        world.send_create(job, 3.0, stamp, target=target)
    world.until("both to be known", world.all_commands_applied)
    world.replace_owner()
    world.until_fired([early, late], world.owner)
    forbidden = [world.head_of(job) for job in (early, late)]
    control = Producer({"bootstrap.servers": world.bootstrap})
    for head, stamp in zip(forbidden, (ahead, world.clock.now() - HOUR), strict=True):
        value = CODEC.encode_cancel(Cancel(head.execution_id, head.token, world.clock.now()))
        control.produce(world.names.worker_control, value, head.execution_id, 0, timestamp=stamp // 1000)
    assert control.flush(30) == 0
    allowed = world.run()
    world.target.all_let_go = True
    world.start_worker("w")
    world.until("what is allowed to run", lambda: states(world.events(allowed)) == [("SUCCEEDED", 1, 0)])
    world.until("word of the others", lambda: len([r for r in world.reports() if r.reason == "cancelled"]) == 2)
    assert [call.headers["Tocsin-Job-Id"] for call in world.target.calls] == [allowed]


def test_an_attempt_of_six_hours_outlasts_rebalances_and_restarts_of_all_other_workers(world: WorkWorld) -> None:
    world.accept_times_ahead(hours=7)
    holder = world.start_worker("holder")
    job = world.run(timeout_s=6.5 * 3600)
    world.until("the lease", lambda: states(world.events(job)) == [("RUNNING", 1, 0)])
    changes = [
        lambda: world.start_worker("b"),
        lambda: world.start_worker("c"),
        lambda: world.stop_worker("b"),
        lambda: world.start_worker("b"),
        lambda: world.signal_worker("c", signal.SIGKILL),
        lambda: world.start_worker("c"),
        lambda: world.signal_worker("b", signal.SIGSTOP),
        lambda: world.start_worker("d"),
        lambda: world.signal_worker("b", signal.SIGCONT),
    ]
    for change in changes:
        change()
        world.clock.ahead += 6 * HOUR // len(changes)
        world.until_beats(2, "owner", "holder")
    others = [world.run() for _ in range(4)]
    world.until("others to run meanwhile", lambda: len(world.target.calls) == 5)
    world.target.all_let_go = True
    world.until("the end", lambda: all(states(world.events(one))[-1:] for one in (job, *others)))
    world.until("the end", lambda: len(states(world.events(job))) == 2)
    assert states(world.events(job)) == [("RUNNING", 1, 0), ("SUCCEEDED", 1, 0)]
    assert {event.worker_id for event in world.events(job)} == {holder.wait_ready()["process_id"]}
    assert [call.headers["Tocsin-Job-Id"] for call in world.target.calls].count(job) == 1
    assert world.fired()[job] == 1


def test_a_restart_of_the_broker_and_a_rolling_deploy_cost_no_attempt(
    world: WorkWorld, dev_cluster: DevCluster
) -> None:
    if "external" in {node.state for node in dev_cluster.status() if node.name == "kafka-1"}:
        pytest.skip("the environment names a broker that is not ours to restart")
    old = world.start_worker("old")
    job = world.run()
    world.until("the lease", lambda: states(world.events(job)) == [("RUNNING", 1, 0)])
    dev_cluster.kill("kafka-1")
    dev_cluster.start("kafka-1", die_with_parent=True)
    world.start_worker("new")
    old.process.terminate()
    world.until("it to leave", lambda: '"worker.revoked"' in old.log.read_text())
    after = world.run()
    world.until("what comes later to run elsewhere", lambda: len(world.events(after)) == 1)
    world.start_worker("newest")
    world.workers["new"].process.terminate()
    world.until_beats(5, "owner", "old")
    assert old.process.poll() is None, "it lets end what it runs"
    world.target.all_let_go = True
    world.until("the ends", lambda: [len(world.events(one)) for one in (job, after)] == [2, 2])
    world.until("the old ones to end", lambda: [world.workers[n].process.poll() for n in ("old", "new")] == [0, 0])
    for one in (job, after):
        assert states(world.events(one)) == [("RUNNING", 1, 0), ("SUCCEEDED", 1, 0)]
    assert len(world.target.calls) == 2
