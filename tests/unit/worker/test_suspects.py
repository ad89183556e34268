"""What a worker says of attempts that its runner gives back, such as one whose own process died."""

from __future__ import annotations

from tests.unit.worker.worker_world import World
from tocsin.domain.executions import REAPED, AttemptError, ReportKind, Started


def test_what_its_runner_gives_back_is_returned_with_its_reason_and_settled() -> None:
    world = World()
    world.dispatch("dead", "crowded", losses=2)
    worker = world.worker()
    worker.steps(2)
    dead, crowded = worker.runner.running
    worker.runner.finish(dead, kind=ReportKind.RETURNED, error=AttemptError(REAPED, "signal SIGKILL"))
    worker.runner.finish(crowded, kind=ReportKind.RETURNED, error=AttemptError("no_room", "full"), started=Started.NO)
    worker.steps(3)
    said = [(r.head.job_id, r.kind, r.reason, r.started, r.error and r.error.message) for r in worker.reports]
    assert said == [
        ("dead", "RETURNED", REAPED, "maybe", "signal SIGKILL"),
        ("crowded", "RETURNED", "no_room", "no", "full"),
    ]
    assert world.lane.committed[0] == (2, "")
