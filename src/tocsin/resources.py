"""Finds the files that ship with tocsin: schemas and topic declarations.

In a wheel they lie inside the package; in a checkout, at the top of the repository.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent
_CHECKOUT = _PACKAGE.parent.parent


def _directory(packaged: str, in_checkout: str) -> Path:
    for path in (_PACKAGE / packaged, _CHECKOUT / in_checkout):
        if path.is_dir():
            return path
    raise FileNotFoundError(f"tocsin's {in_checkout} are missing from the installation at {_PACKAGE}; install it again")


def schemas_dir() -> Path:
    """Return the directory of the Avro schemas (``*.avsc``, and older versions below ``history``)."""
    return _directory("_schemas", "schemas")


def topics_dir() -> Path:
    """Return the directory of the topic declarations (``*.yaml``)."""
    return _directory("_topics", "topics")
