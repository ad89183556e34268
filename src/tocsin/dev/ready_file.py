"""The file that tells scripts and tests where everything is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tocsin.devcluster import Endpoints
from tocsin.devcluster.files import write_atomically


def ready_document(
    gateway_url: str,
    endpoints: Endpoints,
    pids: Mapping[str, Sequence[int]],
    facts: Mapping[str, Mapping[str, Any]],
    echo_url: str | None,
) -> dict[str, Any]:
    """Return the file's content: addresses, and by role the metrics' URL and the running processes."""
    document: dict[str, Any] = {
        "gateway_url": gateway_url,
        "kafka_bootstrap": endpoints.kafka_bootstrap,
        "cassandra_contact_points": list(endpoints.cassandra_contact_points),
        "cassandra_port": endpoints.cassandra_port,
        "metrics_urls": {role: said["metrics_url"] for role, said in facts.items() if "metrics_url" in said},
        "pids": {role: list(running) for role, running in pids.items()},
    }
    if echo_url is not None:
        document["echo_url"] = echo_url
    return document


def write_ready_file(path: Path, document: Mapping[str, Any]) -> None:
    """Write the file so that a reader sees all of it or nothing."""
    write_atomically(path, json.dumps(document, indent=2) + "\n")
