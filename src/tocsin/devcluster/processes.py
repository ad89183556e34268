"""Starting processes that outlive us, knowing them again, and ending them. Linux only: all knowledge is from /proc.

A process is ours when its command line carries our mark, which names the node's directory. A pid alone proves
nothing, for the kernel gives it to others later; the start time tells two processes of one pid apart.
"""

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tocsin.devcluster.errors import DevClusterError

PROC = Path("/proc")
STOP_GRACE_S = 20.0
KILL_GRACE_S = 10.0
POLL_S = 0.05

_PR_SET_PDEATHSIG = 1
# Children of this very process, kept so that they are reaped when they end, whatever ended them.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class ProcessId:
    """A pid and the clock tick, since boot, at which its process started."""

    pid: int
    start_ticks: int


def mark(directory: Path) -> str:
    """Return the argument that makes a Java process known as the one that serves this directory."""
    return f"-Dtocsin.devcluster.node={directory}"


def spawn(command: Sequence[str], *, log: Path, cwd: Path, die_with_parent: bool = False) -> ProcessId:
    """Start a process in a session of its own (Ctrl-C does not reach it), its output going to a new log.

    The log of the run before is kept beside it, with `.1` at the end.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_name(log.name + ".1"))
    with log.open("wb") as output:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_death_signal_setter() if die_with_parent else None,  # noqa: PLW1509  # calls prctl only
        )
    _children[child.pid] = child
    return ProcessId(child.pid, _start_ticks(child.pid) or 0)


def _death_signal_setter() -> Callable[[], None]:
    if threading.current_thread() is not threading.main_thread():
        # The kernel sends the signal when the *thread* that forked ends, which would surprise everyone.
        raise DevClusterError(
            "die_with_parent=True works only from the main thread", remedy="call up() there, or leave the option out"
        )
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def set_death_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the signal was set
            os._exit(1)

    return set_death_signal


def is_alive(process: ProcessId, marked: str) -> bool:
    """Tell whether the process still runs and is the one that we started."""
    _reap()
    return _start_ticks(process.pid) == process.start_ticks and _carries(process.pid, marked)


def find_marked(marked: str) -> list[ProcessId]:
    """Return all running processes that carry the mark, known to us or not."""
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]
    found = [(pid, _start_ticks(pid)) for pid in pids if _carries(pid, marked)]
    return [ProcessId(pid, ticks) for pid, ticks in found if ticks is not None]


def stop(marks: Iterable[str], grace_s: float | None = STOP_GRACE_S) -> list[int]:
    """End every process that carries one of the marks: SIGTERM, a wait, SIGKILL. Return the pids that were killed.

    Without a grace it is SIGKILL at once.
    """
    stubborn = [process for marked in list(marks) for process in find_marked(marked)]
    if grace_s is not None:
        _signal(stubborn, signal.SIGTERM)
        stubborn = wait_gone(stubborn, grace_s)
    _signal(stubborn, signal.SIGKILL)
    left = wait_gone(stubborn, KILL_GRACE_S)
    if left:
        raise DevClusterError(
            f"processes {[process.pid for process in left]} do not end, even by SIGKILL",
            remedy="see what holds them with `ps -o pid,stat,wchan,args`; a hanging disk is usual",
        )
    return sorted(process.pid for process in stubborn)


def wait_gone(running: Iterable[ProcessId], wait_s: float = KILL_GRACE_S) -> list[ProcessId]:
    """Wait until the processes have let go of their files and ports; return those that have not in time."""
    deadline = time.monotonic() + wait_s
    left = list(running)
    while True:
        _reap()
        left = [process for process in left if _start_ticks(process.pid) == process.start_ticks]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(POLL_S)


def _signal(running: Iterable[ProcessId], number: signal.Signals) -> None:
    for process in running:
        if _start_ticks(process.pid) == process.start_ticks:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)


def _reap() -> None:
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            _children.pop(pid, None)


def rss_mb(pid: int) -> float | None:
    """Return a process's resident memory in MB (10^6 bytes), or None if it is gone."""
    try:
        lines = (PROC / str(pid) / "status").read_text("utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    return None


def _carries(pid: int, marked: str) -> bool:
    try:
        return os.fsencode(marked) in (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _start_ticks(pid: int) -> int | None:
    """Return when a process started; None if there is none, or only what is left until its parent reaps it."""
    directory = PROC / str(pid)
    try:
        stat = (directory / "stat").read_text("utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()  # the name, in parentheses, may hold anything
        # A dead main thread is not the end: files and ports are let go of when the last thread ends.
        ended = fields[0] in ("Z", "X") and sum(1 for _ in (directory / "task").iterdir()) <= 1
    except OSError:
        return None
    return None if ended else int(fields[19])
