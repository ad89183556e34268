"""The OpenAPI 3.1 document, made from the routes; ``docs/openapi.json`` is a copy of it.

``python -m tocsin.roles.gateway.openapi docs/openapi.json`` writes the copy.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from tocsin.roles.gateway import models
from tocsin.roles.gateway.callback_models import CompleteRequest, FailRequest
from tocsin.roles.gateway.letter_models import RedriveRequest

DESCRIPTION = "Jobs that fire on time, and what became of them. Answers to errors are RFC 9457 problem details."


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the document of an application."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version=app.openapi_version,
        description=DESCRIPTION,
        routes=app.routes,
    )
    schemas = document["components"]["schemas"]
    requests = (models.JobRequest, models.PauseRequest, CompleteRequest, FailRequest, RedriveRequest)
    for model in (*requests, models.ProblemModel):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        for name, part in schema.pop("$defs", {}).items():
            schemas.setdefault(name, part)
        schemas.setdefault(model.__name__, schema)
    for name in (*(model.__name__ for model in requests), "LetterFilterModel"):
        schemas[name]["additionalProperties"] = False
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)  # the framework's own validation is not used
    return document


def written(document: dict[str, Any]) -> str:
    """Return the document as the text that is committed."""
    return json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    from tocsin.roles.gateway.app import routed_app

    Path(sys.argv[1]).write_text(written(openapi_document(routed_app())), encoding="utf-8")
