"""Signatures of requests after the Standard Webhooks specification, version 1: HMAC-SHA256 with shared secrets.

Two secrets sign at once while one is replaced by another, so that receivers can change theirs at any time in between.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Final

from tocsin.domain.instants import SECOND, Micros

SECRET_PREFIX: Final = "whsec_"
ANY_TENANT: Final = "*"
"""Stands for all tenants that are not named."""


class Signer:
    """Signs what is sent for tenants.

    Args:
        secrets: by tenant, or ``ANY_TENANT``: ``whsec_`` and base64, the newest first. Others are not
            signed for.

    Raises:
        ValueError: a secret is not base64.
    """

    def __init__(self, secrets: Mapping[str, Sequence[str]]) -> None:
        self._keys = {
            tenant: tuple(b64decode(secret.removeprefix(SECRET_PREFIX), validate=True) for secret in given)
            for tenant, given in secrets.items()
        }

    def headers(self, tenant_id: str, execution_id: str, body: bytes, now: Micros) -> dict[str, str]:
        """Return the headers that sign a body, or none for a tenant without secrets.

        Args:
            tenant_id, execution_id: whose request it is, and for what; retries have the same id.
            body: the very bytes that are sent.
            now: the time of the attempt, µs.
        """
        keys = self._keys.get(tenant_id, self._keys.get(ANY_TENANT, ()))
        if not keys:
            return {}
        # The signed text is cut by full stops, so its id must hold none; an execution's id holds no colon.
        name, at = execution_id.replace(".", ":"), str(now // SECOND)
        signed = f"{name}.{at}.".encode() + body
        signatures = (b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys)
        return {
            "webhook-id": name,
            "webhook-timestamp": at,
            "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
        }
