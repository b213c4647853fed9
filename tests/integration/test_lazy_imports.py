"""What a driver need not import, whose learners and env runners are in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration


def test_an_algorithm_and_its_config_need_no_model_of_transformers() -> None:
    code = (
        "import sys\n"
        "from rllib_gigpo.algorithms.gigpo import GiGPOConfig\n"
        "from rllib_gigpo.env_adapters import embedded_model_path\n"
        "model_path = str(embedded_model_path('EZPoints'))\n"
        "config = GiGPOConfig().environment('EZPoints').language_model(model_path=model_path)\n"
        "config.generation(max_prompt_tokens=160, max_response_tokens=32).env_runners(num_env_runners=1)\n"
        "config.learners(num_learners=1).validate()\n"
        "heavy = {'transformers.modeling_utils', 'torch.distributed.tensor', 'torch.distributed.fsdp', 'peft'}\n"
        "assert config.learner_class.__module__ in sys.modules\n"  # Ray has to name the class to its process
        "print(config.algo_class.__name__, *heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "GiGPO"
