"""One child process: how it is started, known and ended. When it is restarted is the supervisor's to say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEASH = Path(__file__).with_name("leash.py")


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What a child is.

    Attributes:
        role: its name for people, and in the ready file.
        command: the program, by its absolute path, and its arguments.
        environ: the whole environment.
        log: where its output goes.
        ready_file: where it says, as JSON with its pid, that it serves.
    """

    role: str
    command: Sequence[str]
    environ: Mapping[str, str]
    log: Path
    ready_file: Path


class ChildProcess:
    """One start of a child. Made on the main thread only: the kernel ends it when the thread that made it ends."""

    def __init__(self, spec: ChildSpec, environ: Mapping[str, str]) -> None:
        self._spec = spec
        spec.ready_file.parent.mkdir(parents=True, exist_ok=True)
        spec.ready_file.unlink(missing_ok=True)
        with spec.log.open("ab") as output:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *spec.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                # Ctrl-C at the terminal reaches only the parent, which ends its children in order.
                start_new_session=True,
            )
        self.pid = self._popen.pid

    def exit_code(self) -> int | None:
        """Return the exit code, minus the signal's number where one ended it, or None while it runs."""
        return self._popen.poll()

    def ready_facts(self) -> dict[str, Any] | None:
        """Return what the child says of itself once it serves, else None."""
        try:
            facts = json.loads(self._spec.ready_file.read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return facts if isinstance(facts, dict) and facts.get("pid") == self.pid else None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child and whatever it started in its own session."""
        if self._popen.poll() is None:  # not reaped, so the number is still its own
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


def said_of_exit(code: int) -> str:
    """Return how a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
