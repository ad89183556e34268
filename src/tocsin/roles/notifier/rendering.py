"""An alert as it is posted: its JSON, and headers that say what it is. The form is a contract: docs/alerts.md.

The headers follow the HTTP binding of CloudEvents 1.0 in binary mode.
"""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import quote

from tocsin import __version__
from tocsin.domain.alerts import Alert
from tocsin.domain.instants import format_rfc3339

SOURCE: Final = "tocsin"
_PLAIN: Final = "!#$&'()*+,-./:;=?@[]^_`{|}~"
"""What a header takes as it is; all else is percent-encoded, as the binding wants."""


def alert_id(alert: Alert, offset: int) -> str:
    """Return the id of an alert's record, the same whenever it is posted: its place in the log, and its time."""
    return f"alert-{alert.at}-{offset}"


def alert_body(alert: Alert, name: str) -> bytes:
    """Return the body."""
    body = {
        "id": name,
        "kind": alert.kind,
        "at": format_rfc3339(alert.at),
        "tenant_id": alert.tenant_id,
        "job_id": alert.job_id,
        "execution_id": alert.execution_id,
        "shard": alert.shard,
        "message": alert.message,
        "count": alert.count,
        "alert_on": alert.alert_on,
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def alert_headers(alert: Alert, name: str) -> dict[str, str]:
    """Return the headers beside those of the signature."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"tocsin/{__version__}",
        "ce-specversion": "1.0",
        "ce-id": name,
        "ce-type": f"tocsin.alert.{quote(alert.kind, _PLAIN, errors='replace')}",
        "ce-source": SOURCE,
        "ce-time": format_rfc3339(alert.at),
    }
    if alert.job_id:
        headers["ce-subject"] = quote(alert.job_id, _PLAIN, errors="replace")
    return headers
