"""Every port in memory, for tests and for trying things out: the same contracts, no servers, nothing kept.

Each module bears the name of the port that it fulfils. The contract suites run against these and the real things alike.
"""
