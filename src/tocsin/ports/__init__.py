"""Ports: what tocsin needs from outside, one contract a file. Adapters fulfil them; the roles know only these."""
