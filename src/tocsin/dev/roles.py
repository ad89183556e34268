"""The four roles as children: the command of each, and what its environment tells it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any, Final
from urllib.parse import urlsplit

from tocsin.dev.child import ChildSpec
from tocsin.devcluster import Endpoints
from tocsin.devcluster.ports import is_free

ROLES: Final = ("gateway", "trigger", "worker", "projector")
NOTIFIER: Final = "notifier"
"""Started beside them only where somebody is to be notified."""
WORKER_STOP_GRACE_S: Final = 5.0
"""A development worker gives up sooner than one in production: Ctrl-C should not take long."""


def endpoint_environ(endpoints: Endpoints) -> dict[str, str]:
    """Return the variables that name the servers."""
    return {
        "TOCSIN_KAFKA__BOOTSTRAP_SERVERS": endpoints.kafka_bootstrap,
        "TOCSIN_CASSANDRA__CONTACT_POINTS": ",".join(endpoints.cassandra_contact_points),
        "TOCSIN_CASSANDRA__PORT": str(endpoints.cassandra_port),
    }


def role_specs(
    data_dir: Path, endpoints: Endpoints, host: str, port: int, environ: Mapping[str, str]
) -> list[ChildSpec]:
    """Return the children.

    Args:
        data_dir: logs go below it.
        endpoints: the servers.
        host, port: where the gateway listens.
        environ: of this process; the user's own settings in it reach the roles.
    """
    # New at each start: a callback that was waited for before it is refused then, and made again after its deadline.
    secret = {"TOCSIN_CALLBACK_SECRETS": environ.get("TOCSIN_CALLBACK_SECRETS") or token_hex(32)}
    common = {**environ, **endpoint_environ(endpoints), **secret, "PYTHONUNBUFFERED": "1"}
    own = {
        "gateway": {"TOCSIN_GATEWAY__HOST": host, "TOCSIN_GATEWAY__PORT": str(port)},
        "worker": {
            "TOCSIN_WORKER__STOP_GRACE_S": environ.get("TOCSIN_WORKER__STOP_GRACE_S", str(WORKER_STOP_GRACE_S)),
            "TOCSIN_WORKER__ALLOW_PRIVATE_TARGETS": "true",
        },
        NOTIFIER: {"TOCSIN_NOTIFIER__ALLOW_PRIVATE": "true"},
    }
    roles = (*ROLES, NOTIFIER) if environ.get("TOCSIN_NOTIFIER__WEBHOOKS") else ROLES
    return [_spec(role, data_dir, {**common, **own.get(role, {})}) for role in roles]


def same_metrics_port(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return what makes a role's next start serve metrics where the last one did, unless that port is taken now.

    Whoever scrapes it should not have to look for it after each restart.

    Args:
        facts: what the last start said of itself.
    """
    port = urlsplit(str(facts.get("metrics_url", ""))).port
    return {"TOCSIN_METRICS__PORT": str(port)} if port and is_free(port) else {}


def _spec(role: str, data_dir: Path, environ: Mapping[str, str]) -> ChildSpec:
    ready_file = data_dir / "run" / f"{role}.json"
    return ChildSpec(
        role,
        (sys.executable, "-m", "tocsin", role),
        {**environ, "TOCSIN_NAME": f"dev-{role}", "TOCSIN_READY_FILE": str(ready_file)},
        data_dir / "logs" / f"{role}.log",
        ready_file,
    )
