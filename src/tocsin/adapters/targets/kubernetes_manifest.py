"""A dispatch as a Kubernetes Job: what is asked of the cluster, named so that asking twice makes no second one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from kubernetes.aio import client

from tocsin.adapters.targets.command import own_environment
from tocsin.adapters.targets.container import container_name, digest_of
from tocsin.domain.executions import AttemptHead
from tocsin.domain.programs import ContainerTarget, memory_bytes_of
from tocsin.ports.targets import Attempt

EXECUTION_LABEL: Final = "tocsin-execution"
TOKEN_LABEL: Final = "tocsin-token"
WORKER_LABEL: Final = "tocsin-worker"
KEPT_S: Final = 3_600
"""How long the cluster keeps a Job that has ended, where its worker did not remove it."""


@dataclass(frozen=True, slots=True)
class KubernetesPlace:
    """Where Jobs are made, and as whom.

    Attributes:
        namespace: of Jobs and their pods.
        service_account: of pods; None: the namespace's own. They get no token of it either way.
        grace_s: between the polite and the forced end of a pod.
    """

    namespace: str = "default"
    service_account: str | None = None
    grace_s: float = 5.0


def labels_of(head: AttemptHead, worker: str) -> dict[str, str]:
    """Return the labels by which a dispatch's Job and pod are found; ids are too long for values of labels."""
    return {
        "app.kubernetes.io/managed-by": "tocsin",
        EXECUTION_LABEL: digest_of(head.execution_id),
        "tocsin-attempt": str(head.attempt),
        TOKEN_LABEL: str(head.token),
        WORKER_LABEL: worker,
    }


def job_of(attempt: Attempt, target: ContainerTarget, place: KubernetesPlace, worker: str) -> client.V1Job:
    """Return the Job of a dispatch: one pod, never a second one, ended by the cluster at its time limit.

    Args:
        attempt: the dispatch.
        target: its target.
        place: where, and as whom.
        worker: names the worker's process in labels.
    """
    head = attempt.execution.head
    env = {**target.env, **own_environment(attempt)}
    container = client.V1Container(
        name="run",
        image=target.image,
        args=[_literal(argument) for argument in target.argv] or None,
        env=[client.V1EnvVar(name=name, value=_literal(value)) for name, value in env.items()],
        resources=_resources(target),
        security_context=client.V1SecurityContext(allow_privilege_escalation=False),
    )
    pod = client.V1PodSpec(
        containers=[container],
        restart_policy="Never",
        automount_service_account_token=False,
        enable_service_links=False,
        service_account_name=place.service_account,
        termination_grace_period_seconds=math.ceil(place.grace_s),
    )
    labels, annotations = labels_of(head, worker), {"tocsin-execution-id": head.execution_id}
    return client.V1Job(
        api_version="batch/v1",
        kind="Job",
        metadata=client.V1ObjectMeta(name=container_name(head), labels=labels, annotations=annotations),
        spec=client.V1JobSpec(
            backoff_limit=0,  # whether there is another attempt is for the owner to say
            active_deadline_seconds=math.ceil(target.timeout_s),
            ttl_seconds_after_finished=KEPT_S,
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=labels, annotations=annotations), spec=pod
            ),
        ),
    )


def _literal(text: str) -> str:
    """Return what a cluster makes this very text of: it takes ``$(NAME)`` for a variable, and two dollars for one."""
    return text.replace("$", "$$")


def _resources(target: ContainerTarget) -> client.V1ResourceRequirements | None:
    limits = {}
    if "cpus" in target.resources:
        limits["cpu"] = target.resources["cpus"]
    if "memory" in target.resources:
        limits["memory"] = str(memory_bytes_of(target.resources["memory"]))
    return client.V1ResourceRequirements(limits=limits) if limits else None
