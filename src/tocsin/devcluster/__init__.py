"""A real Kafka and a real Cassandra on this machine, by one call, for development and tests.

What belongs here: finding Java, fetching jars, writing the servers' settings, starting, watching and stopping
the processes. What must not enter: anything that knows what tocsin does with the servers (topics, tables, roles).
No other package of tocsin is imported from here, and only the command line and tests import this one.
"""

from tocsin.devcluster.cluster import DevCluster, NodeStatus
from tocsin.devcluster.endpoints import Endpoints
from tocsin.devcluster.errors import DevClusterError
from tocsin.devcluster.progress import ProgressReporter, RichProgress

__all__ = ["DevCluster", "DevClusterError", "Endpoints", "NodeStatus", "ProgressReporter", "RichProgress"]
