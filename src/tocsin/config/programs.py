"""Settings of workers that are about programs and what attempts print; a part of those in ``config``."""

from __future__ import annotations

import json
import shlex
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, field_validator
from pydantic_settings import NoDecode


def _words(value: Any) -> Any:
    """Return the words of a command line, quoted as a shell would have them, or as JSON."""
    if not isinstance(value, str):
        return value
    return tuple(json.loads(value)) if value.lstrip().startswith("[") else tuple(shlex.split(value))


class ProgramSettings(BaseModel):
    """What a worker may run besides requests, how, and how much of its output is kept."""

    allow_command: bool = Field(False, description="run commands, as this process's user and on its machine")
    allow_container: bool = Field(False, description="run containers")
    program_grace_s: float = Field(
        5.0, ge=0, le=8, description="between the polite and the forced end of a command or a container"
    )
    scratch_dir: str | None = Field(
        None, description="where directories of commands without one of their own are made; None: that of the system"
    )
    container_cli: Annotated[tuple[str, ...], NoDecode] = Field(
        ("podman",), min_length=1, description="podman or docker, with options that stand before the verb"
    )
    container_runtime: Literal["cli", "kubernetes"] = Field(
        "cli", description="kubernetes: containers are Jobs of a cluster; needs the extra tocsin[kubernetes]"
    )
    kubernetes_namespace: str = Field("default", description="of Jobs and their pods")
    kubernetes_service_account: str | None = Field(None, description="of pods; None: the namespace's own")
    kubernetes_config: str | None = Field(
        None, description="a kubeconfig file; None: that of the pod in which this worker runs, else of this user"
    )
    kubernetes_context: str | None = Field(None, description="of the kubeconfig; None: its current one")
    container_network: str | None = Field(None, description="network of containers; None: what the command line takes")
    container_run_options: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="further options of the verb `run`"
    )
    log_bytes_max: int = Field(1_000_000, ge=1_000, description="output that is kept of one attempt")
    log_waiting_bytes_max: int = Field(
        16_000_000, ge=100_000, description="output that waits for the store, of all attempts, before it is dropped"
    )
    log_linger_s: float = Field(0.5, ge=0, le=10, description="how long output waits for more before it is written")
    log_kept_days: float = Field(30.0, ge=0.01, le=1_000, description="how long output is kept")

    @field_validator("container_cli", "container_run_options", mode="before")
    @classmethod
    def _split_words(cls, value: Any) -> Any:
        return _words(value)
