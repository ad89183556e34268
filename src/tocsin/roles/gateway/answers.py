"""JSON answers, written by orjson."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

VIEW_HEADERS = {"Tocsin-View": "eventually-consistent"}
"""On what is read from views that follow the log with a lag."""


class Json(Response):
    """An answer with a JSON body."""

    def __init__(
        self,
        content: Any,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str = "application/json",
    ) -> None:
        super().__init__(orjson.dumps(content), status, headers, media_type)
