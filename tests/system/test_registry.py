"""Names in Ray's registry across Ray's life."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.system


def _in_fresh_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_ray_still_knows_the_names_after_ray_shutdown() -> None:
    code = """import rllib_gigpo, ray
from ray.tune.registry import get_trainable_cls
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
ray.shutdown()
print(get_trainable_cls("GiGPO").__name__)
"""
    assert _in_fresh_process(code) == "GiGPO"


# In fresh processes: the hook runs once per process, when Ray Tune is imported.
@pytest.mark.parametrize("imports", ["import rllib_gigpo, ray.tune", "import ray.tune, rllib_gigpo"])
def test_ray_knows_the_names_whichever_is_imported_first_and_imports_no_algorithm_for_it(imports: str) -> None:
    code = f"""{imports}, sys
from ray.tune.registry import ENV_CREATOR, TRAINABLE_CLASS, _global_registry
assert not any(name.startswith("rllib_gigpo.algorithms") for name in sys.modules)
print(_global_registry.contains(ENV_CREATOR, "EZPoints"), _global_registry.contains(TRAINABLE_CLASS, "GiGPO"))
"""
    assert _in_fresh_process(code) == "True True"
