"""What targets look like in requests and answers, for the OpenAPI document only: nothing is validated with these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from tocsin.domain.placeholders import PLACEHOLDERS
from tocsin.domain.programs import (
    ARGUMENTS_MAX,
    ARGV_BYTES_MAX,
    CPUS_MAX,
    CWD_CHARS_MAX,
    ENV_BYTES_MAX,
    IMAGE_CHARS_MAX,
    PIDS_MAX,
    VARIABLES_MAX,
)
from tocsin.domain.targets import BODY_BYTES_MAX, HEADER_CHARS_MAX, HEADERS_MAX

Headers = Annotated[dict[str, Annotated[str, Field(max_length=HEADER_CHARS_MAX)]], Field(max_length=HEADERS_MAX)]
Variables = Annotated[dict[str, Annotated[str, Field(max_length=ENV_BYTES_MAX)]], Field(max_length=VARIABLES_MAX)]
Content = Annotated[str, Field(max_length=BODY_BYTES_MAX)] | dict[str, Any] | list[Any]
"""What is sent: its bytes are bounded, which says more than its characters."""


class MessageTargetModel(BaseModel):
    """A record on a Kafka topic, exactly once for readers that read committed."""

    type: Literal["message"]
    topic: str = Field(max_length=249, description="must exist")
    key: str | None = Field(None, max_length=1024)
    headers: Headers | None = Field(None, description="the caller's own; what tocsin sets is refused here")
    value: Content | None = Field(
        None, description="a text is sent as it is, an object or a list as JSON; none is a tombstone, which needs a key"
    )


class HttpTargetModel(BaseModel):
    """An HTTP request."""

    type: Literal["http"]
    url: str = Field(
        max_length=2048, description="absolute http or https URL", examples=["https://settle.internal/run"]
    )
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"] = "POST"
    headers: Headers | None = Field(None, description="the caller's own; what tocsin sets is refused here")
    body: Content | None = Field(None, description="a text is sent as it is, an object or a list as JSON")
    timeout_s: float = Field(30.0, gt=0, le=86_400, description="limit of one attempt")
    template: bool = Field(
        False,
        description="fill placeholders in the body anew for each attempt: "
        + ", ".join("{{" + name + "}}" for name in PLACEHOLDERS),
    )
    callback: bool = Field(
        False,
        description="an answer of 202 is no end: the target calls :complete or :fail, within timeout_s from then on",
    )


class HandlerTargetModel(BaseModel):
    """A Python function that a service's own worker registered."""

    type: Literal["handler"]
    name: str = Field(pattern="^[A-Za-z0-9._:/-]{1,128}$", description="under which it was registered")
    pool: str = Field(pattern="^[A-Za-z0-9_-]{1,64}$", description="whose workers run it; must exist")
    payload: Any = Field(None, description="any JSON, at most 256 KiB: what the function is called with")
    timeout_s: float = Field(30.0, gt=0, le=86_400, description="limit of one attempt")


class CommandTargetModel(BaseModel):
    """A program of the machine of a pool's workers, run without a shell."""

    type: Literal["command"]
    argv: list[Annotated[str, Field(max_length=ARGV_BYTES_MAX)]] = Field(
        min_length=1,
        max_length=ARGUMENTS_MAX,
        description="the program, by its path or a name on PATH, and its arguments; 64 KiB in all",
        examples=[["/usr/local/bin/report", "--day", "yesterday"]],
    )
    pool: str = Field(pattern="^[A-Za-z0-9_-]{1,64}$", description="whose workers run it; must exist")
    env: Variables | None = Field(None, description="variables of its own, 64 KiB in all; it gets none of the worker's")
    cwd: str | None = Field(
        None,
        max_length=CWD_CHARS_MAX,
        pattern="^/",
        description="where it starts; none: in an empty directory that is removed afterwards",
    )
    timeout_s: float = Field(30.0, gt=0, le=86_400, description="limit of one attempt")


class ResourcesModel(BaseModel):
    """Limits of a container; what is absent is not limited."""

    cpus: Annotated[float, Field(ge=0.01, le=CPUS_MAX)] | Annotated[str, Field(max_length=16)] | None = Field(
        None, description="processors, as 0.5"
    )
    memory: Annotated[str, Field(pattern="^[0-9]+(Ki|Mi|Gi)?$", max_length=16)] | None = Field(
        None, description="in bytes, or as 512Mi", examples=["512Mi"]
    )
    pids: Annotated[int, Field(ge=1, le=PIDS_MAX)] | Annotated[str, Field(max_length=16)] | None = Field(
        None, description="processes and threads"
    )


class ContainerTargetModel(BaseModel):
    """A container, run by the workers of a pool."""

    type: Literal["container"]
    image: str = Field(max_length=IMAGE_CHARS_MAX, description="as the workers' registry knows it")
    pool: str = Field(pattern="^[A-Za-z0-9_-]{1,64}$", description="whose workers run it; must exist")
    argv: list[Annotated[str, Field(max_length=ARGV_BYTES_MAX)]] | None = Field(
        None, max_length=ARGUMENTS_MAX, description="in place of the image's own command; 64 KiB in all"
    )
    env: Variables | None = Field(None, description="variables, 64 KiB in all")
    resources: ResourcesModel | None = None
    timeout_s: float = Field(30.0, gt=0, le=86_400, description="limit of one attempt")


TargetModel = HttpTargetModel | MessageTargetModel | HandlerTargetModel | CommandTargetModel | ContainerTargetModel
