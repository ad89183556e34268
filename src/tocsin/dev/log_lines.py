"""Following a child's log, and choosing which of its lines people see at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NamedTuple

READ_BYTES_MAX: Final = 256 * 1024
"""Read at one time; what is beyond comes with the next look."""
LINE_CHARS_MAX: Final = 600
QUIET_LEVELS: Final = ("debug", "info", "notset")
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
