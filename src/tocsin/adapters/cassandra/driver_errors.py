"""The driver's errors in our own words: what may work later, and what cannot until somebody acts."""

from __future__ import annotations

import re
import struct
from typing import Final

from cassandra import AuthenticationFailed, ConfigurationException, InvalidRequest, Unauthorized
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import ProtocolException, SyntaxException

from tocsin.domain.errors import Refused, TocsinError, Unavailable

PART: Final = "cassandra"
_UNBINDABLE: Final = (UnicodeEncodeError, struct.error, OverflowError)
"""What packing raises for values that the store's types cannot hold."""
_OF_ONE: Final = re.compile(r'message="(Key |Rejected an oversized|Batch too large|Guardrail (?!.*disk usage))')
_OF_ALL: Final = re.compile(
    r"does not exist|doesn't exist|unconfigured|undefined|unrecogni|no keyspace|can't find|disk usage", re.I
)
"""In refusals that are about the schema or the servers, and so concern every request like it."""


def translated(error: BaseException) -> TocsinError:
    """Return a driver's error in our own words.

    ``Refused`` where asking again cannot help: credentials, permissions, a missing keyspace or table.
    """
    if isinstance(error, TocsinError):
        return error
    if isinstance(error, NoHostAvailable):
        causes = list(error.errors.values()) if isinstance(error.errors, dict) else list(error.errors)
        for cause in causes:
            if isinstance(cause, AuthenticationFailed):
                return Refused(f"cassandra refused the credentials: {cause}")
        told = "; ".join(sorted({_in_a_line(cause) for cause in causes})) or _in_a_line(error)
        return Unavailable(PART, f"no node answers: {told}")
    if isinstance(error, Unauthorized):
        return Refused(f"cassandra refuses a request: {_in_a_line(error)}")
    if isinstance(error, InvalidRequest | SyntaxException | ConfigurationException):
        text = _in_a_line(error)
        if "does not exist" in text or "unconfigured table" in text:
            return Refused(f"cassandra has no such keyspace or table ({text}); run `tocsin schema migrate`")
        return Refused(f"cassandra refuses a request: {text}")
    if isinstance(error, ProtocolException):
        return Refused(f"cassandra refuses a request: {_in_a_line(error)}")
    if isinstance(error, _UNBINDABLE):
        return Refused(f"cassandra has no place for a value: {_in_a_line(error)}")
    return Unavailable(PART, _in_a_line(error))


def refuses_values(error: BaseException) -> bool:
    """Tell whether this one request is refused for its own values, for ever, while its neighbours are served."""
    if isinstance(error, InvalidRequest | ProtocolException):
        text = str(error)
        return _OF_ONE.search(text) is not None or _OF_ALL.search(text) is None
    return isinstance(error, _UNBINDABLE)


def _in_a_line(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
