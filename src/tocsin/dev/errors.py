"""What goes wrong in this package, each error with its remedy."""

from __future__ import annotations

from tocsin.devcluster import DevClusterError


class DevError(DevClusterError):
    """The development system cannot start or go on; says why, what helps, and shows the end of a log."""
