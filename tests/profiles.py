"""How many examples Hypothesis draws: few in CI, many at night."""

import os

from hypothesis import settings

# The time of an example depends on the machine's load. CI draws the same ones every time, so that a
# rare failure, which the night finds, does not stop an unrelated change.
settings.register_profile("quick", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("nightly", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
