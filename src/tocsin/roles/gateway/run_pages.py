"""Pages of a job's runs: where one ends, and what follows it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tocsin.domain.errors import Fault, InvalidInput, NotFound
from tocsin.domain.fields import shown
from tocsin.domain.instants import Micros
from tocsin.ports.views import Run, RunPlace, ViewReader
from tocsin.roles.gateway.requests import execution_of

_TOKEN: Final = re.compile(r"([1-9][0-9]{0,9})\.(.+)", re.DOTALL)
ATTEMPT_MAX: Final = 2**31 - 1
"""The largest number that the view can have of an attempt."""


def token_of(run: Run) -> str:
    """Return the token of a page that ends with a run."""
    return f"{run.attempt}.{run.execution_id}"


def place_of(token: str, tenant_id: str, job_id: str) -> RunPlace:
    """Read a token of a job's list back.

    Raises:
        InvalidInput: it is none.
    """
    match = _TOKEN.fullmatch(token)
    try:
        name = None if match is None else execution_of(tenant_id, match[2])
    except NotFound:
        name = None
    if match is None or name is None or name.job_id != job_id or int(match[1]) > ATTEMPT_MAX:
        remedy = "give the next_page_token of the page before, or none for the first page"
        raise InvalidInput([Fault("page_token", shown(token), "is not a token of this list", remedy)])
    return RunPlace(name.scheduled_for, match[2], int(match[1]))


async def read_page(
    views: ViewReader, job_id: str, spans: Sequence[tuple[Micros, Micros]], limit: int, after: RunPlace | None
) -> list[Run]:
    """Return up to ``limit`` runs of a job.

    Args:
        views: where they are.
        job_id: whose.
        spans: of nominal times in which they can be, the newest first.
        limit: how many.
        after: only those that stand behind it.
    """
    found: list[Run] = []
    for newest, oldest in spans:
        if len(found) < limit:
            found += await views.list_runs(job_id, newest, oldest, limit - len(found), after)
    return found
