"""Programs that are not tocsin's: started with their children in a group, watched, and ended as a whole."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from benchmarks.rig import STOP_S

READY: Final = "ready"
TAIL_CHARS: Final = 2_000
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Program:
    """A process in a group of its own, whose output goes to a log."""

    def __init__(self, words: Sequence[str], log: Path, environ: Mapping[str, str], cwd: Path) -> None:
        self._log = log
        self._words = words
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                words, env={**os.environ, **environ}, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=errors, text=True, start_new_session=True,
            )  # fmt: skip
        threading.Thread(target=self._follow, daemon=True).start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_ready(self, wait_s: float) -> None:
        """Wait until it has said that it works."""
        with suppress(queue.Empty):
            if self._lines.get(timeout=wait_s) == READY:
                return
        raise PeerFailed(f"{' '.join(self._words)} did not get ready\n{self.tail()}")

    def wait_done(self, wait_s: float) -> None:
        """Wait until it has ended well."""
        try:
            code = self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise PeerFailed(f"{' '.join(self._words)} took longer than {wait_s:.0f} s\n{self.tail()}") from None
        if code:
            raise PeerFailed(f"{' '.join(self._words)} ended with {code}\n{self.tail()}")

    def kill(self) -> None:
        """End it and all its children at once, as a machine that loses its power would."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(STOP_S)

    def tail(self) -> str:
        return self._log.read_text("utf-8", errors="replace")[-TAIL_CHARS:]

    def _follow(self) -> None:
        assert self.process.stdout is not None
        with self._log.open("a", encoding="utf-8") as log:
            for line in self.process.stdout:
                log.write(line)
                log.flush()
                self._lines.put(line.strip()) if line.strip() == READY else None
        self._lines.put("ended")


class PeerFailed(Exception):
    """A peer could not be measured; the others can."""


def tree_cpu_s(root: int) -> float:
    """Return the processor time of a process and all its descendants, those that ended included, s; Linux only."""
    fields = _stats()
    tree = _tree(root, fields)
    return sum(sum(map(int, fields[pid][11:15])) for pid in tree) / TICKS_PER_S


def descendants(root: int) -> list[int]:
    """Return a process and all that it and its children started, itself first."""
    return _tree(root, _stats())


def _stats() -> dict[int, list[str]]:
    """Return what the kernel says of each process, from its state on."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                found[int(entry.name)] = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
    return found


def _tree(root: int, stats: Mapping[int, Sequence[str]]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[1]), []).append(pid)
    tree = [root] if root in stats else []
    for pid in tree:  # grows as it is walked
        tree += children.get(pid, [])
    return tree
