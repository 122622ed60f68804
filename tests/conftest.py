"""Settings that every test shares."""

import os

# One process a core runs the tests: threads of matrix products would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings

# A shared machine may stall for longer than any deadline; no test here is about time.
settings.register_profile("archinfer", deadline=None)
settings.load_profile("archinfer")
