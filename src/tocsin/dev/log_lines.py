"""Following a child's log, and choosing which of its lines people see at once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final, NamedTuple

READ_BYTES_MAX: Final = 256 * 1024
"""Read at one time; what is beyond comes with the next look."""
LINE_CHARS_MAX: Final = 600
REPEAT_AFTER_S: Final = 15.0
"""A line like one that was shown is not shown again for so long."""
KINDS_MAX: Final = 200
"""Kinds of lines that are remembered."""
QUIET_LEVELS: Final = ("debug", "info", "notset")
_DIGITS: Final = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")
_LEFT_OUT: Final = ("event", "level", "role", "timestamp", "action", "exception")


class ShownLine(NamedTuple):
    """One line for people."""

    level: str
    text: str


class LogTail:
    """Reads what was added to a file since the last look. A missing file is an empty one."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self._offset = offset
        self._partial = b""

    def read(self) -> list[str]:
        """Return the lines completed since the last call, without their ends."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(READ_BYTES_MAX)
        except OSError:
            return []
        self._offset += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > READ_BYTES_MAX:
            lines.append(self._partial)
            self._partial = b""
        return [line.decode("utf-8", errors="replace") for line in lines]


class Repetition:
    """Holds back lines that differ only in numbers from one shown a moment ago. Time is an argument, in seconds.

    A client that cannot reach its broker says so twenty times a second; once is enough for people.
    """

    def __init__(self) -> None:
        self._shown_at: dict[str, float] = {}
        self._held_back: dict[str, int] = {}

    def admit(self, line: ShownLine, now_s: float) -> ShownLine | None:
        """Return the line as it is to be shown, or None where it is held back."""
        kind = _DIGITS.sub("#", line.text)
        if now_s - self._shown_at.get(kind, -REPEAT_AFTER_S) < REPEAT_AFTER_S:
            self._held_back[kind] = self._held_back.get(kind, 0) + 1
            return None
        if len(self._shown_at) >= KINDS_MAX:
            self._shown_at.clear()
            self._held_back.clear()
        self._shown_at[kind] = now_s
        held_back = self._held_back.pop(kind, 0)
        return line._replace(text=f"{line.text} ({held_back} more like it before)") if held_back else line


def shown_line(line: str, *, everything: bool = False) -> ShownLine | None:
    """Return what to show of a log line, or None where it is of no concern now.

    Lines are JSON objects with ``level`` and ``event``. Whatever is not was written by something that knows nothing
    of our logging, a crashing interpreter above all, and is shown.
    """
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or "event" not in fields:
        return ShownLine("", line[:LINE_CHARS_MAX]) if line.strip() else None
    level = str(fields.get("level", "")).lower()
    if level in QUIET_LEVELS and not everything:
        return None
    rest = [f"{name}={value}" for name, value in fields.items() if name not in _LEFT_OUT]
    text = " ".join([str(fields["event"]), *rest])[:LINE_CHARS_MAX]
    if fields.get("exception"):
        text = f"{text}\n{str(fields['exception'])[-LINE_CHARS_MAX:]}"
    return ShownLine(level, text)
