"""How tocsin logs: structlog, one line an event, each with a stable ``action`` key for alerts and tests."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logging(role: str, level: int = logging.INFO) -> None:
    """Log to stderr: coloured for a terminal, JSON lines otherwise."""
    terminal = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(role=role)
    # Libraries that log by the standard module speak only of what matters.
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
