"""The store: Cassandra or Scylla behind the ports. Knows no other adapter; bytes come in ready and go out as they are.

Every write and delete carries a logical timestamp, so repeating or reordering them changes nothing. No lightweight
transactions, secondary indexes, counters or views, for both kinds of server must take every query, and a table's
writer is one role only. Nothing here decides anything about jobs.
"""
