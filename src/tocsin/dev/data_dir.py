"""The directory of one development system: made, and held by one process at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tocsin.dev.errors import DevError

LOCK_NAME: Final = "dev.lock"


@contextmanager
def held(data_dir: Path) -> Iterator[Path]:
    """Make the directory if need be and hold it; the kernel lets go of it when this process ends.

    Raises:
        DevError: another process holds it, or it cannot be written.
    """
    directory = data_dir.expanduser().resolve()
    try:
        if not directory.exists():
            directory.mkdir(parents=True)
            (directory / ".gitignore").write_text("*\n", "utf-8")  # the default directory lies in a checkout
        file = (directory / LOCK_NAME).open("a+")
    except OSError as error:
        remedy = "make it a directory that can be written, or choose another one with --data-dir"
        raise DevError(f"{directory} cannot be used: {error}", remedy=remedy) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise DevError(
                f"another development system (pid {holder}) runs on {directory}",
                remedy="stop it first, or give this one a directory of its own with --data-dir",
            ) from None
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield directory
