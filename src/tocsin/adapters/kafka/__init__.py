"""The log: Kafka clients behind the ports. Knows no other adapter; bytes come in ready and go out as they are."""
