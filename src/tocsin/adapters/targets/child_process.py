"""Child processes that run attempts: how the worker starts one, and what such a child does first.

Both sides stand here, for they must agree. Nothing of tocsin is imported: a child that cannot be made ready must not be
able to blame an attempt.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Final

_START: Final = (
    "import importlib, sys; sys.path.insert(0, sys.argv[4])\n"
    "importlib.import_module(sys.argv[1]).main(int(sys.argv[2]), int(sys.argv[3]))"
)
_HERE: Final = str(Path(__file__).resolve().parents[3])
"""Where tocsin is imported from."""
_PR_SET_PDEATHSIG: Final = 1


# In the worker


def start_child(module: str, tell: int, output: int | None = None) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own; it takes orders on its stdin.

    Args:
        module: whose ``main`` it runs, with ``tell`` and the worker's process id.
        tell: file descriptor of the pipe on which it tells things.
        output: where what it prints goes, as ``Popen`` has it; None: where the worker's own goes.

    Raises:
        OSError: it cannot be started.
    """
    return subprocess.Popen(
        [sys.executable, "-c", _START, module, str(tell), str(os.getpid()), _HERE],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        pass_fds=(tell,),
        start_new_session=True,
    )


# In the child


def end_with(parent: int, tell: int) -> None:
    """End with the parent, however that ends, and pass the pipe to it on to nobody."""
    os.set_inheritable(tell, False)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def make_ordered(orders: IO[bytes]) -> Any:
    """Make what the first order asks for: the path to import from, a factory, and what it is called with."""
    path, factory, argument = pickle.load(orders)
    sys.path[:] = path
    module, _, name = factory.partition(":")
    return getattr(importlib.import_module(module), name)(argument)


def error_told(error: Any) -> list[Any] | None:
    """Return an ``AttemptError`` as it travels on the pipe."""
    return error and [error.error_class, error.message, error.status, error.retry_after_s]
