"""Settings for all tests: JAX on eight CPU devices, and hypothesis that gives the same examples every time."""

import os
import signal

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # of a shell that runs this in the background, as all processes of ours would
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import pytest
from hypothesis import HealthCheck, settings

from tests.long import skip_what_takes_long
from tests.needs import skip_where_too_old

# No deadline: a busy machine is not a bug. Derandomised: a suite that gates a change must not flake.
settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_where_too_old(items)
    skip_what_takes_long(items)
