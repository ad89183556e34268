"""Files shared between processes: locks and atomic writes. Knows nothing of servers or jars."""

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tocsin.devcluster.errors import DevClusterError

LOCK_WAIT_S_MAX = 600.0
LOCK_POLL_S = 0.1
LOG_LINES_MAX = 10_000

_TELLS_OF_ERROR = re.compile(r"\b(ERROR|FATAL)\b|Exception|^Error")


@contextmanager
def locked(path: Path, *, on_wait: Callable[[], None], wait_s_max: float = LOCK_WAIT_S_MAX) -> Iterator[None]:
    """Hold the exclusive lock of a file, also against other threads; call on_wait once if it is taken.

    The kernel drops the lock when its holder dies, so a lock is never stale. The file itself is never removed:
    a waiter could otherwise lock a file that has no name any more.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        deadline = time.monotonic() + wait_s_max
        waited = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waited:
                    waited = True
                    on_wait()
                if time.monotonic() > deadline:
                    raise DevClusterError(
                        f"another process has held {path} for {wait_s_max:.0f} s",
                        remedy=f"find it with `fuser {path}` and wait for it or end it",
                    ) from None
                time.sleep(LOCK_POLL_S)
        yield  # closing the file releases the lock


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content so that readers see the old text or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def excerpt(path: Path, lines: int = 15, errors: int = 5) -> str:
    """Return the last lines of a log, after the last few lines before them that tell of errors."""
    every = tail(path, lines=LOG_LINES_MAX).splitlines()
    before = [line for line in every[:-lines] if _TELLS_OF_ERROR.search(line)][-errors:]
    return "\n".join([*before, *(["…"] if before else []), *every[-lines:]])


def tail(path: Path, lines: int = 15, bytes_max: int = 1 << 20) -> str:
    """Return the last lines of a text file, or nothing if there is no such file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - bytes_max))
            text = file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
