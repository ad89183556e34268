"""The worker: takes executions from its lanes, runs them, and reports.

Mark, then start: an attempt starts only after an acknowledged offset commit lists it as begun. Report, then settle:
an offset is settled only after an acknowledged report has taken the responsibility over. What lasts becomes a lease:
from then on it belongs to this process and not to a partition. What another had begun is never run, but returned to
its owner. No thread, sleep or clock
belongs in here; they come in as ports.
"""

from tocsin.roles.worker.limits import WorkerLimits
from tocsin.roles.worker.loop import WorkerLoop

__all__ = ["WorkerLimits", "WorkerLoop"]
