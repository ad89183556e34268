"""Runs a command that ends with its parent: ``python leash.py <parent's pid> <command…>``.

A script, run by its path and importing nothing of tocsin. It is executed between fork and the real program because
asking the kernel from Python code that runs in a forked copy of a process with threads may deadlock. Linux only:
elsewhere a parent that is killed leaves its children behind.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Bind this process to its parent, then become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        # SIGKILL, for a polite stop would wait for servers that are ending at the same time.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we asked
            sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
