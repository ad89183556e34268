"""Choosing the ports that people see, and asking the gateway whether it is ready."""

from __future__ import annotations

import http.client
from typing import Final

from tocsin.dev.errors import DevError
from tocsin.devcluster import ports

HOST: Final = "127.0.0.1"
GATEWAY_PORT: Final = 8080
ECHO_PORT: Final = 8081
ASK_WAIT_S: Final = 2.0


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
