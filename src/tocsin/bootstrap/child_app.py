"""The app in a child process of its worker; apart from all else of a worker, so that a child is quick to start."""

from __future__ import annotations

from tocsin.bootstrap.logs import configure_logging
from tocsin.handlers.loading import load_app
from tocsin.handlers.registry import HandlerApp


def app_of_child(ref: str) -> HandlerApp:
    """Return the app; it logs as its worker does."""
    configure_logging("worker")
    return load_app(ref)
