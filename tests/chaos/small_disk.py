"""A broker's disk that is small enough to be filled: a file system in memory, where one may be mounted."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BROKER = "kafka-2"
"""The broker whose data are on it."""
SIZE = "1g"
BLOCK = bytes(1 << 16)


class SmallDisk:
    """The file system of one broker's data."""

    def __init__(self, path: Path) -> None:
        self._filler = path / "filler"

    def fill(self) -> None:
        """Leave not a byte."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while file.write(BLOCK):
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def empty(self) -> None:
        """Make room again."""
        self._filler.unlink()


@contextmanager
def small_disk(servers: Path, brokers: int) -> Iterator[SmallDisk]:
    """Mount it below the data of one of so many brokers, none of which was started yet.

    Raises:
        PermissionError: nothing may be mounted here.
    """
    path = servers / BROKER / "data"
    for number in range(1, brokers + 1):
        # The directory tells how many there are.
        (servers / f"kafka-{number}").mkdir(parents=True)
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PermissionError(f"fill_disk needs a file system of its own: {done.stderr.strip()}; leave it out")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
