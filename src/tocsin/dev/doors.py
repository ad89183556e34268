"""Choosing the ports that people see, and asking roles whether they serve."""

from __future__ import annotations

import http.client
from typing import Final
from urllib.parse import urlsplit

from tocsin.dev.errors import DevError
from tocsin.devcluster import ports

HOST: Final = "127.0.0.1"
GATEWAY_PORT: Final = 8080
ECHO_PORT: Final = 8081
ASK_WAIT_S: Final = 2.0
SHARDS_OWNED: Final = "tocsin_shards_owned"


def choose_port(wanted: int, *, insist: bool, name: str) -> int:
    """Return a port that is free now: the wanted one, or any where that is 0 or, without insisting, taken.

    It is chosen here and not by the process that listens, so that its URL is the same after a restart.

    Raises:
        DevError: the wanted port is taken, and there is no other choice.
    """
    if wanted and ports.is_free(wanted, HOST):
        return wanted
    if wanted and insist:
        raise DevError(
            f"port {wanted} for the {name} is taken",
            remedy=f"see who listens with `ss -ltnp 'sport = :{wanted}'`, or choose another port; 0 takes any free one",
        )
    return ports.choose((name,), {}, host=HOST)[name]


def answers_ready(port: int) -> bool:
    """Tell whether the gateway on this port says that it can serve requests."""
    connection = http.client.HTTPConnection(HOST, port, timeout=ASK_WAIT_S)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def shards_owned(metrics_url: str) -> int | None:
    """Return how many shards a trigger owns and has restored, or None where it does not say."""
    url = urlsplit(metrics_url)
    connection = http.client.HTTPConnection(url.hostname or HOST, url.port, timeout=ASK_WAIT_S)
    try:
        connection.request("GET", url.path or "/")
        lines = connection.getresponse().read().decode().splitlines()
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    samples = (line.partition(" ") for line in lines)
    return next((int(float(value)) for name, _, value in samples if name == SHARDS_OWNED), None)
