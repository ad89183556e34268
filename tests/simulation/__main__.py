"""``python -m tests.simulation``."""

import sys

from tests.simulation.runner import main

sys.exit(main())
