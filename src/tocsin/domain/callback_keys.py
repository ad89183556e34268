"""Keys that prove a callback: an HMAC over the dispatch that it speaks of. Workers make them, gateways check them.

A key is good for one dispatch only, and says nothing of the secret or of any other dispatch.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Final

SECRETS_MAX: Final = 2
SECRET_CHARS_MIN: Final = 32


class CallbackKeys:
    """Makes and checks keys.

    Args:
        secrets: the newest first: it makes keys, all of them check. None: no target may call back.
    """

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = tuple(secret.encode() for secret in secrets)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def key(self, execution_id: str, attempt: int, token: int) -> str:
        """Return the key of a dispatch, 64 hexadecimal digits; there must be a secret."""
        return _key(self._secrets[0], execution_id, attempt, token)

    def fits(self, given: str, execution_id: str, attempt: int, token: int) -> bool:
        """Tell whether a key is that of a dispatch, in a time that tells nothing of how wrong it is."""
        found = False
        for secret in self._secrets:
            found |= hmac.compare_digest(_key(secret, execution_id, attempt, token).encode(), given.encode())
        return found


def _key(secret: bytes, execution_id: str, attempt: int, token: int) -> str:
    text = f"tocsin callback|{execution_id}|{attempt}|{token}"
    return hmac.digest(secret, text.encode(), "sha256").hex()
