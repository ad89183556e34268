"""Other schedulers beside tocsin: the same jobs, due at one instant, on this machine, in one run."""
