"""Checks of single settings, for ``tocsin.config`` alone."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from ipaddress import ip_network
from typing import Annotated, Any

from pydantic import Field, SecretStr


def listed(value: Any) -> Any:
    """Return what a variable lists, separated by commas or as JSON."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return tuple(json.loads(value))
    return tuple(v.strip() for v in value.split(",") if v.strip())


def check_signing_secret(text: str) -> None:
    remedy = "give whsec_ and the base64 of 24 to 64 random bytes"
    if not text.startswith("whsec_"):
        raise ValueError(f"a secret does not begin with whsec_: {remedy}")
    try:
        size = len(b64decode(text.removeprefix("whsec_"), validate=True))
    except ValueError:
        raise ValueError(f"a secret is not base64: {remedy}") from None
    if not 24 <= size <= 64:
        raise ValueError(f"a secret has {size} bytes: {remedy}")


SigningSecrets = dict[str, Annotated[tuple[SecretStr, ...], Field(min_length=1, max_length=2)]]
"""One secret for each name or, while it is replaced, two."""


def checked_secrets(value: SigningSecrets) -> SigningSecrets:
    for secret in (secret for given in value.values() for secret in given):
        check_signing_secret(secret.get_secret_value())
    return value


def checked_networks(value: tuple[str, ...]) -> tuple[str, ...]:
    for text in value:
        ip_network(text)
    return value


def check_recipient(name: str) -> None:
    if name not in ("*", "@operator") and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ValueError(f"{name[:80]!r} is no tenant: give a tenant's id, * for all others, or @operator")


def checked_names(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            raise ValueError(f"{name[:80]!r} is no pool's name: give 1 to 64 letters, digits, hyphens and underscores")
    return tuple(dict.fromkeys(names))
