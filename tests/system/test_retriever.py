"""`rllib retriever serve` as it is typed, and a training that outlives its death."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from rllib_gigpo.agent_formats import ParsedResponse
from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters.search_qa.generate import main as generate
from rllib_gigpo.retrieval import client
from tests.tiny_models import save_tiny_model

pytestmark = pytest.mark.system

SERVE = [sys.executable, "-c", "from rllib_gigpo.cli.main import app; app()", "retriever", "serve"]


def always_searches(text: str) -> ParsedResponse:
    """A parser under which a model that knows nothing searches, whatever it writes."""
    return ParsedResponse("<search>Velford</search>", True, None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made_up") / "world"
    generate([str(folder), "--people", "20"])
    return folder


@pytest.fixture
def servers() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for server in started:
        server.kill()
        server.wait()
        assert server.stdout is not None
        server.stdout.close()


def start(files: Path, servers: list[subprocess.Popen[str]], port: str = "0") -> str:
    """The URL of a server that has been started and listens."""
    command = [*SERVE, str(files / "corpus.jsonl"), "--port", port]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    servers.append(server)
    assert server.stdout is not None
    line = server.stdout.readline()
    assert line.startswith("retriever: http://127.0.0.1:") and line.endswith("(BM25, 52 passages)\n")
    return line.split()[1]


def test_a_training_outlives_its_retriever(
    files: Path, servers: list[subprocess.Popen[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_FIRST_DELAY_S", 0.01)
    url = start(files, servers)
    port = url.split(":")[2].split("/")[0]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    config = (
        GiGPOConfig()
        .environment(
            "SearchQA",
            env_config={
                "data": str(files / "train.jsonl"),
                "evaluation_data": str(files / "test.parquet"),
                "retriever_url": url,
                "max_steps": 2,
            },
        )
        .agent_format(prompt_template="{{ task }}", response_parser=always_searches)
        .language_model(model_path=str(save_tiny_model(tmp_path / "model")))
        .generation(max_prompt_tokens=128, max_response_tokens=2)
        .training(group_size=2, groups_per_iteration=2, lr=1e-6)
        .evaluation(evaluation_duration=2)
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .debugging(seed=0)
    )
    algo = config.build_algo()

    def endings(results: dict[str, Any]) -> dict[str, float]:
        return {name: count for name, count in results["env_runners"]["endings"].items() if count}

    try:
        assert endings(algo.evaluate()) == {"step_limit": 2}
        assert endings(algo.train()) == {"step_limit": 4}

        servers[0].send_signal(signal.SIGKILL)
        servers[0].wait()
        for _ in range(2):
            rollouts = algo.train()["env_runners"]
            assert endings({"env_runners": rollouts}) == {"service_failure": 4}
            assert rollouts["service_failure_causes"] == {"RetrieverConnectionError": 4}
            assert rollouts["dropped_groups"] == 2
        assert algo.evaluate()["env_runners"]["success_rate"] == 0

        assert start(files, servers, port) == url
        rollouts = algo.train()["env_runners"]
        assert endings({"env_runners": rollouts}) == {"step_limit": 4}
        assert rollouts["dropped_groups"] == 0
        servers[1].kill()
        servers[1].wait()
    finally:
        algo.stop()

    # A service that never worked is a mistake, and not an outage.
    algo = config.build_algo()
    try:
        with pytest.raises(
            RuntimeError, match=r"all 4 trajectories of a rollout failed; the last cause: the retriever"
        ):
            algo.train()
    finally:
        algo.stop()
        ray.shutdown()


def test_the_server_says_what_it_is_ends_with_ctrl_c_and_names_what_is_wrong(
    files: Path, servers: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    url = start(files, servers)
    with urllib.request.urlopen(url.replace("/retrieve", "/health"), timeout=30) as response:
        assert response.read() == b'{"status":"ok","index":"BM25","passages":52}'

    port = url.split(":")[2].split("/")[0]
    taken = subprocess.run([*SERVE, str(files / "corpus.jsonl"), "--port", port], capture_output=True, text=True)
    assert taken.returncode == 2 and taken.stdout == ""
    assert taken.stderr == f"Error: port {port} of 127.0.0.1 is in use; name another one with --port\n"

    servers[0].send_signal(signal.SIGINT)
    assert servers[0].wait(timeout=60) == 130
