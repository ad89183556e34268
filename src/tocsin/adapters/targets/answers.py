"""What an HTTP answer, or its absence, means: words for people, and stable words for programs. Pure."""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp

from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.policies import RETRY_S_MAX

ERROR_CHARS_MAX: Final = 1_000
RESULT_CHARS_MAX: Final = 1_000
ANSWER_CHARS_MAX: Final = 500
"""How much of an answer a result repeats."""
ANSWER_BYTES_KEPT: Final = 4 * ANSWER_CHARS_MAX

_TEXT_TYPE: Final = re.compile(r"text/.*|application/(.*\+)?(json|xml|yaml|x-www-form-urlencoded|x-ndjson)", re.I)
_DIGITS: Final = re.compile(r"[0-9]+")
_DIGITS_MAX: Final = 12
_CHARSETS: Final = ("utf-8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "windows-1252", "utf-16")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class BlockedAddressError(OSError):
    """The target's address is not one that tenants may reach."""

    def __init__(self) -> None:
        # The text names no address: the client unites errors of several addresses only when they read alike.
        super().__init__("the host's address is not one that targets may reach")


def one_line(text: str, chars_max: int = ERROR_CHARS_MAX) -> str:
    """Return a text on one line, without control characters, cut."""
    line = " ".join(_CONTROL.sub(" ", text).split())
    return line if len(line) <= chars_max else line[: chars_max - 1] + "…"


def readable(body: bytes, content_type: str | None, charset: str | None, encoded: bool) -> str:
    """Return the beginning of an answer as text, or nothing where it is none."""
    if encoded or not body or (content_type and _TEXT_TYPE.fullmatch(content_type) is None):
        return ""
    known = charset.lower() if charset and charset.lower() in _CHARSETS else "utf-8"
    text = body[:ANSWER_BYTES_KEPT].decode(known, "replace")
    return _CONTROL.sub("", text).strip()[:ANSWER_CHARS_MAX]


def judge_answer(
    status: int, reason: str | None, location: str | None, text: str, retry_after: str | None, now: Micros
) -> tuple[ReportKind, AttemptError | None, str | None]:
    """Return kind, error and result for an answer. Any 2xx is a success. ``now`` is the worker's clock."""
    line = one_line(f"{status} {reason or ''}", 100)
    if 200 <= status < 300:
        return ReportKind.SUCCEEDED, None, (f"{line}: {text}" if text else line)[:RESULT_CHARS_MAX]
    if 300 <= status < 400:
        where = f" to {location}" if location else ""
        error = AttemptError("redirect", one_line(f"{line}{where}: redirects are not followed"), status)
    else:
        error = AttemptError(
            "status", one_line(f"{line}: {text}" if text else line), status, retry_after_s(retry_after, now)
        )
    return ReportKind.FAILED, error, None


def retry_after_s(value: str | None, now: Micros) -> float | None:
    """Return how long a target asks to be left alone, seconds; None where it says nothing of use.

    RFC 9110, section 10.2.3: whole seconds, or a date, which counts from ``now``. A date that has passed asks for
    nothing. What is longer than any retry may wait is cut to that.
    """
    text = (value or "").strip()
    if _DIGITS.fullmatch(text):
        # Longer numbers are not converted: their size alone says enough.
        return min(float(text), RETRY_S_MAX) if len(text) <= _DIGITS_MAX else RETRY_S_MAX
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    seconds = (at.replace(tzinfo=at.tzinfo or UTC) - datetime.fromtimestamp(now / SECOND, UTC)).total_seconds()
    return min(seconds, RETRY_S_MAX) if seconds >= 0 else None


def judge_failure(error: BaseException) -> AttemptError:
    """Return the error of an attempt that got no whole answer."""
    return AttemptError(_error_class(error), one_line(_describe(error)))


def _error_class(error: BaseException) -> str:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, BlockedAddressError):
        return "blocked"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "dns"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError | aiohttp.ServerFingerprintMismatch):
        return "tls"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "connection_refused" if isinstance(cause, ConnectionRefusedError) else "connection"
    if isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | OSError):
        return "connection"
    if isinstance(error, aiohttp.InvalidURL | ValueError):
        return "invalid_request"
    if isinstance(error, aiohttp.ClientError):
        return "protocol"
    return "internal"


def _describe(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, aiohttp.ClientResponseError):
        text = error.message
    elif isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, BlockedAddressError):
        text = f"{error.host}: {error.os_error}"
    return text if text and not isinstance(error, KeyError) else f"{type(error).__name__}: {text}".rstrip(": ")
