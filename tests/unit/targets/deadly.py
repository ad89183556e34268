"""A runner for processes of their own: what an attempt does is written in its URL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.domain.targets import HttpTarget
from tocsin.ports.targets import Attempt, AttemptEnd


class DeadlyRunner:
    """Fulfils ``ports.targets.TargetRunner``. ``folder``: where it leaves traces."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._ended: list[AttemptEnd] = []

    def start(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            target = attempt.execution.target
            assert isinstance(target, HttpTarget)
            end = self._do(attempt, urlsplit(target.url).path.strip("/"))
            self._ended.append(end)

    def _do(self, attempt: Attempt, what: str) -> AttemptEnd:
        if what == "exit":
            os._exit(7)
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "hang":
            grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            (self._folder / "pids").write_text(f"{os.getpid()} {grandchild.pid}")
            time.sleep(600)
        score = Path("/proc/self/oom_score_adj").read_text().strip()
        error = AttemptError("status", "answered 503", 503, 9.5) if what == "fail" else None
        kind = ReportKind.SUCCEEDED if error is None else ReportKind.FAILED
        return AttemptEnd(attempt.ref, kind, 11, 12, error, f"{attempt.execution.head.job_id} {score} é")

    def ended(self) -> list[AttemptEnd]:
        ended, self._ended = self._ended, []
        return ended

    def cancel(self, refs: Sequence[Any]) -> None:
        """Nothing here can be stopped but by killing it."""

    def close(self) -> None:
        (self._folder / "closed").touch()


def broken(_argument: str) -> DeadlyRunner:
    """Fail to make a runner."""
    raise RuntimeError("no such thing")
