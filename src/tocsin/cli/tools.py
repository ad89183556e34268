"""What tools that ask log and store themselves have in common: where those are, and how their silence is told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tocsin.cli.door import DEV_DIR, DEV_DIR_VARIABLE
from tocsin.cli.exits import REFUSED, UNREACHABLE, Failure
from tocsin.domain.errors import TocsinError, Unavailable

if TYPE_CHECKING:
    from tocsin.config import Settings

T = TypeVar("T")


def asked(question: Callable[[], T]) -> T:
    """Return the answer; what fails is told with its exit code and remedy."""
    try:
        return question()
    except Unavailable as error:
        remedy = "set TOCSIN_KAFKA__* and TOCSIN_CASSANDRA__* to where they are, or start `tocsin dev`"
        raise Failure(UNREACHABLE, str(error), remedy) from error
    except TocsinError as error:
        raise Failure(REFUSED, str(error)) from error


def found_settings() -> Settings:
    """Return the environment's settings; where it says nothing, the addresses of a running development system."""
    from tocsin.config import Settings
    from tocsin.devcluster import DevCluster, DevClusterError

    settings = Settings()
    if {"kafka", "cassandra"} & settings.model_fields_set:
        return settings
    try:
        endpoints = DevCluster(Path(os.environ.get(DEV_DIR_VARIABLE, DEV_DIR))).endpoints()
    except DevClusterError:
        return settings
    if endpoints is not None:
        settings.kafka.bootstrap_servers = endpoints.kafka_bootstrap
        settings.cassandra.contact_points = tuple(endpoints.cassandra_contact_points)
        settings.cassandra.port = endpoints.cassandra_port
    return settings
