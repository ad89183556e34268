"""Several processes of one role under a small parent, which does none of their work: one process uses one core.

Each copy has a name of its own that stays over restarts. One that dies is started again, sooner or later by how often
it did; one that stopped in peace stays away. The parent has no thread, client or lock that could fail with them.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import structlog

from tocsin.bootstrap.logs import configure_logging
from tocsin.bootstrap.process import write_json
from tocsin.bootstrap.restarts import POLICY, RestartPolicy, Restarts

log = structlog.get_logger()

COPIES_MAX: Final = 256
LOOK_EVERY_S: Final = 0.1
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PORT_MAX: Final = 65_535
_PR_SET_PDEATHSIG: Final = 1


@dataclass(slots=True)
class Copy:
    """One of them, over all its starts. ``facts``: what its present start said once it served."""

    name: str
    words: Sequence[str]
    ready_file: Path
    restarts: Restarts
    process: subprocess.Popen[bytes] | None = None
    started_at_s: float = 0.0
    start_due_s: float = 0.0
    exit_code: int | None = None
    facts: dict[str, Any] | None = field(default=None)


def copy_names(name: str, count: int) -> list[str]:
    """Return the names of so many copies."""
    return [f"{name}-{number}" for number in range(1, count + 1)]


def command_of(role: str, name: str, metrics_port: int, ready_file: Path, more: Sequence[str] = ()) -> list[str]:
    """Return the command line of one copy. ``more``: what it is told besides."""
    # -P: what lies in the working directory must not stand in for installed modules.
    words = [sys.executable, "-P", "-m", "tocsin", role, "--name", name, "--metrics-port", str(metrics_port)]
    return [*words, "--ready-file", str(ready_file), *more]


def run_copies(
    role: str, name: str, count: int, metrics_port: int, ready_file: str | None, more: Sequence[str] = ()
) -> int:
    """Run copies of a role until they are asked to stop, or have all stopped.

    Args:
        role: what they are.
        name: theirs are NAME-1, NAME-2, ….
        count: how many.
        metrics_port: of the first one, the others take those that follow; 0: any free ones.
        ready_file: written once all serve, with what each of them says of itself.
        more: further words of each one's command line.

    Returns:
        The exit code: 0 where each one ended in peace, else 1.

    Raises:
        ValueError: the ports do not suffice.
    """
    if metrics_port and metrics_port + count - 1 > PORT_MAX:
        raise ValueError(f"{count} metrics ports from {metrics_port} on end beyond {PORT_MAX}: begin lower, or give 0")
    configure_logging(role)
    with tempfile.TemporaryDirectory(prefix="tocsin-copies-") as directory:
        copies = []
        for number, copy in enumerate(copy_names(name, count)):
            own_ready = Path(directory) / f"{number}.json"
            words = command_of(role, copy, metrics_port + number if metrics_port else 0, own_ready, more)
            copies.append((copy, words, own_ready))
        return Copies(role, name, copies, ready_file).run()


class Copies:
    """The parent's loop.

    Args:
        role: for its log lines and its ready file.
        name: its own.
        copies: name, command line and ready file of each.
        ready_file: see ``run_copies``.
        policy: how soon what died is started again.
    """

    def __init__(
        self,
        role: str,
        name: str,
        copies: Sequence[tuple[str, Sequence[str], Path]],
        ready_file: str | None,
        policy: RestartPolicy = POLICY,
    ) -> None:
        self._role = role
        self._name = name
        self._ready_file = ready_file
        self._copies = [Copy(*one, Restarts(policy)) for one in copies]
        self._stopping = False
        self._said: list[dict[str, Any]] = []

    def run(self) -> int:
        """Run until all have ended; see ``run_copies``."""
        before = {number: signal.signal(number, self._ask) for number in STOP_SIGNALS}
        try:
            while not self._done():
                for copy in self._copies:
                    self._look_after(copy)
                self._tell_ready()
                time.sleep(LOOK_EVERY_S)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        log.info("stopped", action="copies.stopped", name=self._name)
        return 0 if all(copy.exit_code == 0 for copy in self._copies) else 1

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        """Pass each request on, also the second one: whether it changes anything is the role's to say."""
        self._stopping = True
        for copy in self._copies:
            if copy.process is not None:
                copy.process.send_signal(signal.SIGTERM)

    def _done(self) -> bool:
        """Nothing runs, and nothing is to be started."""
        if any(copy.process is not None for copy in self._copies):
            return False
        return self._stopping or all(copy.exit_code == 0 for copy in self._copies)

    def _look_after(self, copy: Copy) -> None:
        if copy.process is None:
            if not self._stopping and copy.exit_code != 0 and time.monotonic() >= copy.start_due_s:
                self._start(copy)
            return
        code = copy.process.poll()
        if code is not None:
            self._bury(copy, copy.process.pid, code)
        elif copy.facts is None:
            copy.facts = _facts_of(copy.ready_file, copy.process.pid)
            if copy.facts is not None:
                told = {"name": copy.name, "pid": copy.process.pid, "metrics": copy.facts.get("metrics_url")}
                log.info("serves", action="copies.ready", **told)

    def _start(self, copy: Copy) -> None:
        copy.ready_file.unlink(missing_ok=True)
        parent = os.getpid()
        copy.facts, copy.started_at_s = None, time.monotonic()
        # Ctrl-C at the terminal reaches only this process, which passes it on.
        copy.process = subprocess.Popen(copy.words, start_new_session=True, preexec_fn=lambda: _end_with(parent))  # noqa: PLW1509 - this process has one thread
        if self._stopping:  # asked between the look and the start
            copy.process.send_signal(signal.SIGTERM)
        log.info("started", action="copies.started", name=copy.name, pid=copy.process.pid)

    def _bury(self, copy: Copy, pid: int, code: int) -> None:
        now = time.monotonic()
        copy.process, copy.facts, copy.exit_code = None, None, code
        told = {"name": copy.name, "pid": pid, "exit_code": code}
        if code == 0 or self._stopping:
            log.info("ended", action="copies.ended", **told)
            return
        wait_s = copy.restarts.died(now - copy.started_at_s)
        copy.start_due_s = now + wait_s
        log.error("died; it is started again", action="copies.died", **told, wait_s=wait_s, deaths=copy.restarts.deaths)

    def _tell_ready(self) -> None:
        """Write down what all say of themselves, again after one was started again."""
        if self._ready_file is None:
            return
        said = [copy.facts for copy in self._copies if copy.facts is not None]
        if said != self._said and len(said) == len(self._copies):
            self._said = said
            facts = {"role": self._role, "name": self._name, "pid": os.getpid(), "processes": said}
            write_json(Path(self._ready_file), facts)


def _facts_of(path: Path, pid: int) -> dict[str, Any] | None:
    try:
        facts = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) and facts.get("pid") == pid else None


def _end_with(parent: int) -> None:
    """Have the kernel ask this process to stop when its parent goes, or two of one name would run after a restart.

    Linux only: elsewhere a parent that is killed leaves its copies behind.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)
