"""Settings that hold for every test, before anything imports Ray or torch."""

import os

# Ray would otherwise count calls home, and torch would start a thread per core in every worker of every test.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("OMP_NUM_THREADS", "1")
