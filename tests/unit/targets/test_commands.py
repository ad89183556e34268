"""Command targets: what a program is given, what its end means, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.targets.programs import (
    HEAD,
    ID,
    Bench,
    WallClock,
    attempt,
    end_of,
    running_with,
    wait_for_end,
    wait_until,
)
from tocsin.adapters.targets import leash
from tocsin.adapters.targets.command import CommandRunner
from tocsin.adapters.targets.refusing import RefusingRunner
from tocsin.domain.executions import ReportKind
from tocsin.domain.programs import ARGV_BYTES_MAX, CommandTarget
from tocsin.domain.retries import is_retryable
from tocsin.domain.targets import HttpTarget

FAMILY = "setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; nohup sleep 1000 & sleep 1000 & echo ready; "


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.logs.close(5)


@pytest.fixture
def make(bench: Bench, tmp_path: Path) -> Iterator[Callable[..., CommandRunner]]:
    made: list[CommandRunner] = []

    def runner(grace_s: float = 5.0) -> CommandRunner:
        made.append(CommandRunner(WallClock(), bench.logs, grace_s, str(tmp_path)))
        return made[-1]

    yield runner
    for one in made:
        one.close()


def command(
    *argv: str, timeout_s: float = 60.0, env: dict[str, str] | None = None, cwd: str | None = None
) -> CommandTarget:
    return CommandTarget(argv, "batch", env or {}, cwd, timeout_s)


def shell(text: str, timeout_s: float = 60.0, env: dict[str, str] | None = None) -> CommandTarget:
    return command("/bin/sh", "-c", text, timeout_s=timeout_s, env=env)


def test_a_program_sees_its_own_variables_and_nothing_of_the_worker(
    make: Callable[..., CommandRunner], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN_CALLBACK_SECRETS", "a secret of the worker's")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    end = end_of(make(), attempt(command("env", env={"COLOUR": "blue\nand more ünï"}), redelivered=True))
    assert end.kind is ReportKind.SUCCEEDED
    assert sorted(bench.text().splitlines()) == sorted(
        [
            "PATH=/usr/bin:/bin",
            "COLOUR=blue",
            "and more ünï",
            f"TOCSIN_EXECUTION_ID={ID}",
            "TOCSIN_JOB_ID=acme@nightly",
            "TOCSIN_SCHEDULED_FOR=2025-10-10T21:00:00Z",
            "TOCSIN_ATTEMPT=2",
            "TOCSIN_TOKEN=41",
            "TOCSIN_REDELIVERED=true",
        ]
    )


def test_a_program_gets_its_arguments_byte_for_byte_and_no_shell_reads_them(
    make: Callable[..., CommandRunner], bench: Bench
) -> None:
    odd = ["$HOME `id` ; | & > /tmp/x", "", "*", "-n", "line\nbreak", "ünï 🔔", "'\""]
    end = end_of(make(), attempt(command("/usr/bin/printf", "%s|", *odd)))
    assert end.kind is ReportKind.SUCCEEDED
    assert bench.text() == "".join(f"{one}|" for one in odd)


def test_a_program_may_have_as_many_arguments_as_a_job_may(make: Callable[..., CommandRunner], bench: Bench) -> None:
    end = end_of(make(), attempt(command("/usr/bin/printf", "%.3s", "x" * (ARGV_BYTES_MAX - 100))))
    assert (end.kind, bench.text()) == (ReportKind.SUCCEEDED, "xxx")


def test_a_program_starts_in_an_empty_directory_that_is_gone_afterwards(
    make: Callable[..., CommandRunner], bench: Bench, tmp_path: Path
) -> None:
    end = end_of(
        make(), attempt(shell("pwd; ls -a; mkdir -p a/b; touch a/b/c; chmod 0 a; cat; ps -o sid= -p $$; echo $$"))
    )
    assert end.kind is ReportKind.SUCCEEDED
    directory, *entries, session, number = bench.text().split()
    assert Path(directory).parent == tmp_path
    assert entries == [".", ".."], "nothing is in it, and nothing comes from stdin"
    assert session == number, "it has a session of its own"
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_a_program_has_locked_is_removed_too_and_nothing_that_it_points_at() -> None:
    """Root needs no permission, so another account removes it here."""
    outside = Path(tempfile.mkdtemp())
    locked = outside / "scratch"
    (locked / "a" / "b" / "c").mkdir(parents=True)
    (locked / "a" / "away").symlink_to(outside)
    account = 65_534 if os.getuid() == 0 else os.getuid()
    for directory, mode in (("a/b/c", 0), ("a/b", 0o500), ("a", 0), (".", 0)):
        os.chown(locked / directory, account, -1)
        (locked / directory).chmod(mode)
    outside.chmod(0o777)
    child = os.fork()
    if child == 0:
        os.setuid(account)
        leash._remove(str(locked))
        os._exit(0)
    os.waitpid(child, 0)
    assert not locked.exists() and outside.stat().st_mode & 0o777 == 0o777
    outside.rmdir()


def test_a_program_starts_where_its_job_says(make: Callable[..., CommandRunner], bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    assert end_of(make(), attempt(command("ls", cwd=str(tmp_path)))).result == "kept"
    assert (tmp_path / "kept").exists()
    end = end_of(make(), attempt(command("ls", cwd="/no/such/place")))
    assert (end.kind, end.error and end.error.error_class) == (ReportKind.FAILED, "not_executable")
    assert end.error is not None and "/no/such/place: No such file" in end.error.message


@pytest.mark.parametrize(
    ("text", "error_class", "status", "retried"),
    [
        ("exit 1", "exit", 1, True),
        ("echo out; echo why >&2; exit 255", "exit", 255, True),
        ("exit 75", "temporary", 75, True),
        ("exit 126", "not_executable", 126, False),
        ("no-such-program", "not_executable", 127, False),
        ("kill -KILL $$", "signal", None, True),
        ("kill -SEGV $$", "signal", None, True),
    ],
)
def test_what_an_end_means(
    make: Callable[..., CommandRunner], text: str, error_class: str, status: int | None, retried: bool
) -> None:
    end = end_of(make(), attempt(shell(text)))
    assert end.kind is ReportKind.FAILED
    assert end.error is not None
    assert (end.error.error_class, end.error.status) == (error_class, status)
    assert is_retryable(end.kind, end.error) is retried
    if "why" in text:
        assert (end.error.message, end.result) == ("exit status 255: why", "out\nwhy")


@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program", "/etc/passwd", "/tmp"])
def test_what_cannot_be_run_fails_for_good(make: Callable[..., CommandRunner], program: str) -> None:
    end = end_of(make(), attempt(command(program)))
    assert end.error is not None
    assert end.error.error_class == "not_executable"
    assert program in end.error.message
    assert not is_retryable(end.kind, end.error)


def test_output_of_both_streams_stands_in_its_order_and_its_end_in_the_result(
    make: Callable[..., CommandRunner], bench: Bench
) -> None:
    end = end_of(make(), attempt(shell("for n in 1 2 3; do echo out $n; echo err $n >&2; done; printf '\\377\\0x'")))
    assert bench.text() == "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n\ufffd\0x"
    assert end.result == "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n\ufffdx"
    assert [chunk.token for chunk in bench.chunks()] == [41] * len(bench.chunks())


def test_a_program_that_prints_without_end_is_neither_kept_whole_nor_held_up(tmp_path: Path) -> None:
    bench = Bench(attempt_bytes_max=10_000)
    runner = CommandRunner(WallClock(), bench.logs, 1.0, str(tmp_path))
    end = end_of(runner, attempt(shell("head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo done")))
    assert (end.kind, (end.result or "")[-5:]) == (ReportKind.SUCCEEDED, "\ndone")
    assert bench.text() == "x" * 10_000
    assert bench.chunks()[-1].lost_bytes == 3_000_006 - 10_000
    end = end_of(runner, attempt(command("yes", timeout_s=0.5), head=HEAD._replace(attempt=3)))
    assert end.kind is ReportKind.TIMED_OUT
    runner.close()
    bench.logs.close(5)


def test_at_its_time_limit_a_program_may_end_by_itself_and_all_that_it_started_ends(
    make: Callable[..., CommandRunner], bench: Bench
) -> None:
    mark = uuid.uuid4().hex
    text = f"{FAMILY} trap 'echo tidied; exit 0' TERM; while :; do sleep 0.05; done"
    end = end_of(make(), attempt(shell(text, timeout_s=1.5, env={"MARK": mark})))
    assert (end.kind, end.error and end.error.message) == (ReportKind.TIMED_OUT, "no end within 1.5 s")
    assert "tidied\n" in bench.text()  # A shell may also tell of the members of its family that were killed.
    assert running_with(mark) == []


def test_a_program_that_stops_what_keeps_it_is_ended_all_the_same(make: Callable[..., CommandRunner]) -> None:
    mark = uuid.uuid4().hex
    end = end_of(make(grace_s=0.3), attempt(shell("kill -STOP $PPID; sleep 1000", timeout_s=1, env={"MARK": mark})))
    assert end.kind is ReportKind.TIMED_OUT
    assert running_with(mark) == []


def test_output_that_is_held_open_from_beyond_its_reach_holds_no_attempt_up(
    make: Callable[..., CommandRunner], bench: Bench, tmp_path: Path
) -> None:
    """A service that a program has started as another user, say; here this very process has got at its pipe."""
    pid, go_on = tmp_path / "pid", tmp_path / "go on"
    runner = make()
    text = f"echo said; echo $$ > '{pid}'; while ! test -e '{go_on}'; do sleep 0.01; done"
    runner.start([attempt(shell(text, timeout_s=60))])
    wait_until(lambda: pid.exists() and pid.read_text().strip(), "the program")
    with Path(f"/proc/{pid.read_text().strip()}/fd/1").open("wb", buffering=0) as held:
        go_on.touch()
        assert wait_for_end(runner).kind is ReportKind.SUCCEEDED
        assert bench.text() == "said\n"
        with pytest.raises(BrokenPipeError):
            held.write(b"more")


def test_what_does_not_listen_is_killed_after_the_grace(make: Callable[..., CommandRunner]) -> None:
    mark = uuid.uuid4().hex
    text = f"trap '' TERM; {FAMILY} while :; do sleep 0.05; done"
    began = time.monotonic()
    end = end_of(make(grace_s=0.3), attempt(shell(text, timeout_s=0.5, env={"MARK": mark})))
    assert end.kind is ReportKind.TIMED_OUT
    assert time.monotonic() - began >= 0.8
    assert running_with(mark) == []


@pytest.mark.parametrize("times", [1, 3])
def test_a_cancel_ends_all_that_the_program_started_however_often_it_is_repeated(
    make: Callable[..., CommandRunner], bench: Bench, times: int
) -> None:
    mark = uuid.uuid4().hex
    runner = make(grace_s=0.5)
    runner.start([attempt(shell(f"trap '' TERM; {FAMILY} while :; do sleep 0.05; done", env={"MARK": mark}))])
    wait_until(lambda: any("ready" in chunk.text for chunk in bench.chunks()), "the program to run")
    for _ in range(times):
        runner.cancel(["ref"])
        time.sleep(0.05)
    assert wait_for_end(runner).kind is ReportKind.CANCELLED
    assert running_with(mark) == []


def test_a_cancel_before_the_program_runs_leaves_nothing(make: Callable[..., CommandRunner]) -> None:
    mark = uuid.uuid4().hex
    runner = make()
    for pause_s in (0.0, 0.005, 0.02, 0.05):
        runner.start([attempt(shell("sleep 1000", env={"MARK": mark}))])
        time.sleep(pause_s)
        runner.cancel(["ref"])
        assert wait_for_end(runner).kind is ReportKind.CANCELLED
        wait_until(lambda: running_with(mark) == [], "the program to be gone")


def test_what_a_program_leaves_behind_ends_with_it(make: Callable[..., CommandRunner]) -> None:
    mark = uuid.uuid4().hex
    end = end_of(make(), attempt(shell(f"{FAMILY} exit 0", env={"MARK": mark})))
    assert end.kind is ReportKind.SUCCEEDED
    assert running_with(mark) == []


KILLED_WORKER = """
import sys, time
from tests.unit.targets.programs import Bench, WallClock, attempt
from tests.unit.targets.test_commands import FAMILY, shell
from tocsin.adapters.targets.command import CommandRunner
runner = CommandRunner(WallClock(), Bench().logs, 0.3, sys.argv[1])
text = FAMILY + "touch started; trap '' TERM; while :; do sleep 0.05; done"
runner.start([attempt(shell(text, env={"MARK": sys.argv[2]}))])
time.sleep(600)
"""


def test_when_the_worker_is_killed_all_that_its_programs_started_ends(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    worker = subprocess.Popen([sys.executable, "-c", KILLED_WORKER, str(tmp_path), mark])
    try:
        wait_until(lambda: any(tmp_path.glob("*/started")), "the program to run")
        wait_until(lambda: len(running_with(mark)) >= 6, "its whole family to run")
    finally:
        worker.kill()
        worker.wait()
    wait_until(lambda: running_with(mark) == [], "the program's family to end")
    wait_until(lambda: list(tmp_path.iterdir()) == [], "its directory to be removed")


def test_when_its_keeper_is_killed_the_program_ends_and_so_does_the_attempt(
    make: Callable[..., CommandRunner], bench: Bench
) -> None:
    mark = uuid.uuid4().hex
    runner = make()
    runner.start([attempt(shell("echo $PPID; exec sleep 1000", env={"MARK": mark}))])
    wait_until(lambda: any(chunk.text for chunk in bench.chunks()), "the program to run")
    os.kill(int(bench.chunks()[0].text), signal.SIGKILL)
    end = wait_for_end(runner)
    assert (end.kind, end.error and end.error.error_class) == (ReportKind.FAILED, "signal")
    wait_until(lambda: running_with(mark) == [], "the program to end")


def test_a_program_cannot_pass_for_its_keeper(make: Callable[..., CommandRunner]) -> None:
    """It has no descriptor to tell an outcome by, and to leave it stdin is no leash."""
    text = (
        "for fd in 3 4 5 6 7 8 9; do (echo '{\"exit\": 0}' >&$fd) 2>/dev/null; done; ls /proc/self/fd | wc -l; exit 3"
    )
    end = end_of(make(), attempt(shell(text)))
    assert end.error is not None
    assert (end.error.status, end.result) == (3, "4")


def test_a_close_ends_what_runs(bench: Bench, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    runner = CommandRunner(WallClock(), bench.logs, 0.2, str(tmp_path))
    runner.start([attempt(shell("sleep 1000", env={"MARK": mark}), ref=object()) for _ in range(3)])
    wait_until(lambda: len(running_with(mark)) >= 3, "the programs to run")
    runner.close()
    assert running_with(mark) == []


def test_another_kind_of_target_and_a_worker_without_permission_fail_for_good(
    make: Callable[..., CommandRunner],
) -> None:
    assert end_of(make(), attempt(HttpTarget("http://a.test/"))).kind is ReportKind.FAILED
    end = end_of(RefusingRunner(WallClock(), "start it with --allow-command"), attempt(command("true")))
    assert end.error is not None
    assert (end.kind, end.error.error_class) == (ReportKind.FAILED, "not_allowed")
    assert "--allow-command" in end.error.message
    assert not is_retryable(end.kind, end.error)
