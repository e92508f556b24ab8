"""Settings of every test: how hard Hypothesis tries.

``HYPOTHESIS_PROFILE`` chooses: ``default`` while working, ``ci`` repeats the same examples on every run, ``nightly``
searches long. No profile has a deadline, since a shared machine's pace says nothing about the code.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=100,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # judges the machine, like a deadline
)
settings.register_profile("nightly", settings.get_profile("ci"), derandomize=False, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
