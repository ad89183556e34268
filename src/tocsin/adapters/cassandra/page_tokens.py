"""Page tokens of a listing: opaque to whoever carries them, and checked when they come back."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from tocsin.adapters.cassandra.run_rows import part_of
from tocsin.domain.errors import Fault, InvalidInput

_CHARS_MAX: Final = 600
_MARK: Final = "1:"
"""The form's version, so that a later form can tell old tokens from its own."""


def page_token(job_id: str) -> str:
    """Return the token of the page that begins after a job; the job's part goes with it."""
    text = f"{_MARK}{part_of(job_id)}:{job_id}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_page_token(token: str) -> tuple[int, str]:
    """Return the part and the job after which to go on.

    Raises:
        InvalidInput: no page gave this token.
    """
    try:
        if len(token) > _CHARS_MAX:
            raise ValueError
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
        part, _, job_id = text.removeprefix(_MARK).partition(":")
        # A token is what this module would make of the same job, to the letter: nothing else is let through.
        if not job_id or page_token(job_id) != token:
            raise ValueError
    except (ValueError, binascii.Error):
        remedy = "give the next_page_token of the page before, or none for the first page"
        raise InvalidInput([Fault("page_token", token[:120], "is not a token of this listing", remedy)]) from None
    return int(part), job_id
