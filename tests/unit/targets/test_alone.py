"""Attempts that were lost twice run in processes of their own, and only those die of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.worker.worker_world import CODEC, HandClock
from tocsin.adapters.memory.targets import MemoryTargetRunner
from tocsin.adapters.targets import alone
from tocsin.adapters.targets.alone import AloneRunner
from tocsin.domain.executions import REAPED, AttemptError, AttemptHead, ReportKind, Started
from tocsin.domain.ids import execution_id
from tocsin.domain.targets import HttpTarget
from tocsin.ports.targets import Attempt, AttemptEnd, RunnerSpec

DEADLY = "tests.unit.targets.deadly:DeadlyRunner"
PATIENCE_S = 60.0
ROOT = Path(__file__).parents[3]


class Bench:
    """A runner of suspects beside a shared one that runs in memory."""

    def __init__(self, folder: Path, factory: str = DEADLY, children_max: int = 4) -> None:
        self.folder = folder
        self.shared = MemoryTargetRunner(HandClock())
        self.runner = AloneRunner(self.shared, RunnerSpec(factory, str(folder)), HandClock(), children_max)

    def start(self, what: str, losses: int = 2, timeout_s: float = 60.0) -> str:
        head = AttemptHead(1, 3, losses, execution_id(what, 7, 5), what, "acme", 7, 5, 5)
        value = CODEC.encode_execution(head, HttpTarget(f"http://target.test/{what}", timeout_s=timeout_s))
        self.runner.start([Attempt(what, CODEC.decode_execution(value), losses > 0)])
        return what

    def ends(self, count: int = 1) -> list[AttemptEnd]:
        found: list[AttemptEnd] = []
        until = time.monotonic() + PATIENCE_S
        while len(found) < count:
            assert time.monotonic() < until, f"only {len(found)} of {count} ended"
            found += self.runner.ended()
            time.sleep(0.01)
        return found

    def pids(self) -> list[int]:
        until = time.monotonic() + PATIENCE_S
        file = self.folder / "pids"
        while not file.exists() or not (pids := file.read_text().split()):  # it may be there, and not yet written
            assert time.monotonic() < until, "the attempt never began"
            time.sleep(0.01)
        return [int(pid) for pid in pids]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.runner.close()


def _is_gone(pid: int) -> bool:
    """Tell whether a process is dead; one that nobody has waited for yet counts."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_what_was_lost_less_than_twice_runs_with_the_others(bench: Bench) -> None:
    bench.start("exit", losses=0)
    bench.start("kill", losses=1)
    assert [attempt.ref for attempt in bench.shared.started] == ["exit", "kill"]
    bench.shared.finish_all()
    assert [end.kind for end in bench.ends(2)] == [ReportKind.SUCCEEDED] * 2


def test_a_suspect_that_ends_well_is_told_as_the_child_told_it(bench: Bench) -> None:
    bench.start("fail")
    bench.start("well")
    failed, well = sorted(bench.ends(2), key=lambda end: str(end.ref))
    assert bench.shared.started == []
    error = AttemptError("status", "answered 503", 503, 9.5)
    assert failed == AttemptEnd("fail", ReportKind.FAILED, 11, 12, error, "fail 1000 é")
    assert well == AttemptEnd("well", ReportKind.SUCCEEDED, 11, 12, None, "well 1000 é"), "the kernel takes it first"
    assert (bench.folder / "closed").exists(), "it may close what it opened"


def test_a_child_that_dies_is_returned_as_reaped_and_its_neighbours_go_on(bench: Bench) -> None:
    for what in ("exit", "kill", "well"):
        bench.start(what)
    by_ref = {end.ref: end for end in bench.ends(3)}
    assert by_ref["well"].kind is ReportKind.SUCCEEDED
    for what, how in (("exit", "exit status 7"), ("kill", "signal SIGKILL")):
        end = by_ref[what]
        assert (end.kind, end.started) == (ReportKind.RETURNED, Started.MAYBE)
        assert end.error is not None
        assert end.error.error_class == REAPED
        assert how in end.error.message


def test_a_cancel_kills_the_whole_process_group(bench: Bench) -> None:
    bench.start("hang")
    child, grandchild = bench.pids()
    bench.runner.cancel(["hang", "unknown"])
    [end] = bench.ends()
    assert end.kind is ReportKind.CANCELLED
    assert _is_gone(child)
    assert _is_gone(grandchild)


def test_a_limit_that_passes_kills_the_whole_process_group(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "KILLED_AFTER_S", 3.0)
    bench.start("hang", timeout_s=0.5)
    [end] = bench.ends()
    assert end.kind is ReportKind.TIMED_OUT
    if (bench.folder / "pids").exists():
        assert all(_is_gone(pid) for pid in bench.pids())


def test_a_runner_that_cannot_be_made_burns_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "tests.unit.targets.deadly:broken")
    bench.start("well")
    [end] = bench.ends()
    assert (end.kind, end.started) == (ReportKind.RETURNED, Started.NO)
    assert end.error is not None
    assert end.error.error_class == alone.NO_CHILD
    bench.runner.close()


def test_more_than_may_run_alone_are_returned_as_not_started(tmp_path: Path) -> None:
    bench = Bench(tmp_path, children_max=1)
    bench.start("hang")
    bench.start("well")
    [end] = bench.ends()
    assert (end.ref, end.kind, end.started) == ("well", ReportKind.RETURNED, Started.NO)
    pids = bench.pids()
    bench.runner.close()
    assert all(_is_gone(pid) for pid in pids), "a close leaves nothing behind"


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from tests.unit.targets.test_alone import Bench\n"
        "bench = Bench(Path(sys.argv[1])); bench.start('hang'); bench.pids(); os._exit(0)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=False).returncode == 0
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert _is_gone(pids[0])
    os.kill(pids[1], 9)  # a grandchild is out of the kernel's reach here
