"""Posting alerts to the webhooks of tenants and of the operator."""
