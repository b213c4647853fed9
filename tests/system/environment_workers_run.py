"""Trains with environment workers until it is ended from outside; for test_environment_workers.py.

python -m tests.system.environment_workers_run FOLDER NUM_ENV_RUNNERS
"""

import sys

import ray

from tests.algorithm_cases import small_config
from tests.pool_cases import Trouble

if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    algo = (
        small_config()
        .environment(Trouble, env_config={"folder": sys.argv[1]})
        .generation(max_response_tokens=8)
        .env_runners(num_env_runners=int(sys.argv[2]), env_workers=2)
        .build_algo()
    )
    while True:
        algo.train()
        print("trained", flush=True)
