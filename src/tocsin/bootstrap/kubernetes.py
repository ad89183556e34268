"""Where Kubernetes is, and as whom a worker asks it. Imported only where containers are its Jobs."""

from __future__ import annotations

import os
from typing import Final

import uuid_utils
from kubernetes.aio import client, config

from tocsin.adapters.targets.kubernetes_jobs import KubernetesRunner
from tocsin.adapters.targets.kubernetes_manifest import KubernetesPlace
from tocsin.config import WorkerSettings
from tocsin.domain.errors import Refused
from tocsin.ports.clock import Clock
from tocsin.ports.run_logs import RunLogs

IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
"""Set in every pod."""


def kubernetes_runner(worker: WorkerSettings, clock: Clock, logs: RunLogs) -> KubernetesRunner:
    """Return the runner of containers as Jobs.

    Raises:
        Refused: there is no way to a cluster.
    """

    async def connect() -> client.ApiClient:
        settings = client.Configuration()
        if worker.kubernetes_config is None and worker.kubernetes_context is None and IN_CLUSTER in os.environ:
            config.load_incluster_config(client_configuration=settings)
        else:
            await config.load_kube_config(worker.kubernetes_config, worker.kubernetes_context, settings)
        return client.ApiClient(settings)

    place = KubernetesPlace(
        worker.kubernetes_namespace, worker.kubernetes_service_account, grace_s=worker.program_grace_s
    )
    try:
        # Of this start alone: it tells the Jobs of one worker from those of another.
        return KubernetesRunner(clock, logs, connect, place, uuid_utils.uuid7().hex)
    except (config.ConfigException, OSError) as error:
        raise Refused(
            f"there is no way to a Kubernetes cluster ({error}); TOCSIN_WORKER__KUBERNETES_CONFIG names a kubeconfig"
        ) from error
