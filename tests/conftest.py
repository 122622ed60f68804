"""Settings that every test shares."""

from hypothesis import settings

# A shared machine may stall for longer than any deadline; no test here is about time.
settings.register_profile("archinfer", deadline=None)
settings.load_profile("archinfer")
