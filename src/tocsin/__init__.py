"""tocsin: cron at scale. See ARCHITECTURE.md for the floor plan.

What a service's own handlers need is found here: ``Worker``, ``Context``, ``Retry`` and ``Fail``. They are imported
when they are first asked for, so that ``import tocsin`` costs nothing.
"""

import importlib as _importlib

__version__ = "0.1.0"

_PUBLIC = ("Context", "Fail", "Retry", "Worker")


def __getattr__(name: str) -> object:
    if name in _PUBLIC:
        # By its name alone: the rooms below import this package for its version, and must not see what is above them.
        return getattr(_importlib.import_module("tocsin.app"), name)
    raise AttributeError(f"module 'tocsin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_PUBLIC]
