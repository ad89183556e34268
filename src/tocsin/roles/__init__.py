"""The four roles: gateway, trigger, worker, projector. Each is a loop over ports and knows no adapter."""
