"""Generated tasks are the same in every process, however it salts its hashes."""

from __future__ import annotations

import pytest

from rllib_gigpo.env_adapters import make_env
from rllib_gigpo.env_adapters.multi_agent.relay import relay_task
from tests.environment_cases import GENERATED, fingerprint, fingerprints_in_other_processes

pytestmark = pytest.mark.integration


def all_starts() -> str:
    """Digests of starts and first answers, and the tasks of the relay, whose first observations say little."""
    digests = [fingerprint(make_env(name, **options), range(5), range(5)) for name, options in GENERATED.values()]
    return f"{digests} {[relay_task(task, num_objects=4) for task in range(50)]}"


def test_another_process_sets_up_the_same_starts() -> None:
    elsewhere = fingerprints_in_other_processes(
        "all_starts()", "from tests.integration.test_generated_tasks import all_starts"
    )
    assert elsewhere == {all_starts()}
