"""Steps an environment that hangs, in a worker, until this process is ended from outside.

python -m tests.system.hanging_environment FOLDER
"""

import asyncio
import sys
from pathlib import Path

from rllib_gigpo.env_runners.environment_worker import CreatorContext
from rllib_gigpo.env_runners.worker_pool import WorkerLimits, WorkerPool
from tests.pool_cases import Trouble


async def hang(pool: WorkerPool) -> None:
    env = await pool.acquire()
    await env.reset(seed=0, options={"task": 0})
    await env.step("1")
    await env.step("1")


if __name__ == "__main__":
    (Path(sys.argv[1]) / "hang").touch()
    asyncio.run(
        hang(
            WorkerPool(Trouble, CreatorContext({"folder": sys.argv[1]}, 0, 0), 2, num_workers=2, limits=WorkerLimits())
        )
    )
