"""Memory that each of two sharded learners takes while it is built: reading its part of a model, and reading all of it.

    python benchmarks/sharded_reading.py models/smollm2-135m-instruct [--dtype bfloat16]

Of resident anonymous memory, sampled every millisecond; pages of mapped files are not counted, which the system takes
back where it needs them. Linux, gloo.
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.learner_processes import build_learner, processes


def anonymous_mib() -> float:
    """Of this process."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def most_mib(num_learners: int, index: int, directory: Path, dtype: str, reads_whole: bool) -> float:
    """Beyond what the process had before the learner was built."""
    before, is_over, most = anonymous_mib(), threading.Event(), 0.0

    def watch() -> None:
        nonlocal most
        while not is_over.wait(0.001):
            most = max(most, anonymous_mib() - before)

    thread = threading.Thread(target=watch)
    thread.start()
    opened = "rllib_gigpo.rl_modules.weight_files.open_weight_files"
    with mock.patch(opened, return_value=None) if reads_whole else mock.MagicMock():
        learner = build_learner(directory, num_learners, index, sharding="fsdp", dtype=dtype)
    is_over.set()
    thread.join()
    del learner
    return most


def main() -> None:
    """Prints a line for either way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a model directory")
    parser.add_argument("--dtype", default="bfloat16", help="of the weights in memory (default %(default)s)")
    arguments = parser.parse_args()
    for what, reads_whole in (("its part", False), ("all of it", True)):
        with processes(2) as two:  # new ones: an allocator keeps what was freed
            of_learners = two.call(2, most_mib, arguments.model.resolve(), arguments.dtype, reads_whole)
        print(f"reading {what}: {', '.join(f'{mib:.0f}' for mib in of_learners)} MiB", flush=True)


if __name__ == "__main__":
    main()
