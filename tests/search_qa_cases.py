"""Questions in files, and what SearchQA shows, for a comparison between processes; this module imports little."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rllib_gigpo.env_adapters.generated_tasks import TASKS
from rllib_gigpo.env_adapters.search_qa.search_qa import SearchQA

ROW: dict[str, Any] = {"id": "test_0", "question": " Where? ", "golden_answers": ["x", "y"], "data_source": "nq"}


def first_answers() -> str:
    """What some tasks and seeds show, and what a search finds for them."""
    env = SearchQA(hops=2)
    shown: list[Any] = []
    for task in (0, 5, TASKS):
        shown += [env.reset(options={"task": task}), env.step("<search>a town on the river Isk</search>")]
    for seed in range(3):
        shown += [env.reset(seed=seed), env.step("<search>a land</search>")]
    return repr(shown)


def write_rows(path: Path, *rows: Any) -> Path:
    if path.suffix == ".parquet":
        import pandas as pd

        pd.DataFrame(rows).to_parquet(path)
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows))
    return path
