"""``capacity``: what a cluster must be for a given load, reckoned from what one of each thing costs here."""
