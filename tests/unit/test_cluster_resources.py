"""What a cluster has no room for is refused: Ray would wait for it, for ever and in silence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rllib_gigpo.algorithms.group_policy import cluster_resources
from rllib_gigpo.algorithms.group_policy.cluster_resources import check_cluster_resources

pytestmark = pytest.mark.unit

Nodes = Sequence[dict[str, float]]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[[Nodes], None]:
    """Stands for an idle cluster of machines with these resources, outside of any placement group."""

    def has(nodes: Nodes) -> None:
        total = {name: sum(node.get(name, 0) for node in nodes) for name in ("CPU", "GPU")}
        answers: dict[str, Any] = {
            "is_initialized": True,
            "cluster_resources": total,
            "available_resources": total,
            "nodes": [{"Alive": True, "Resources": dict(node)} for node in nodes],
        }
        for name, answer in answers.items():
            monkeypatch.setattr(cluster_resources.ray, name, lambda answer=answer: answer)
        monkeypatch.setattr(cluster_resources, "get_current_placement_group", lambda: None)

    return has


@pytest.mark.parametrize("gpus", range(1, 9))
def test_an_engine_and_a_learner_on_each_gpu_are_no_more_than_there_are(
    gpus: int, cluster: Callable[[Nodes], None], caplog: pytest.LogCaptureFixture
) -> None:
    """As `rllib plan` places them: a sum of such parts is 4.000000000000001 for 4."""
    cluster([{"CPU": 16, "GPU": gpus}])
    check_cluster_resources([{"CPU": 1, "GPU": 0.51}] * gpus + [{"CPU": 0, "GPU": 0.49}] * gpus)
    assert not caplog.records


@pytest.mark.parametrize(
    ("nodes", "bundles", "message"),
    [
        ([{"CPU": 4}], [{"CPU": 1}] * 5, r"ask for 5 CPU, but the cluster has 4 CPU: not enough CPU"),
        (
            [{"CPU": 8, "GPU": 2}] * 2,
            [{"CPU": 1, "GPU": 4}],
            r"asks for 1 CPU, 4 GPU, and no machine of the cluster has that: 8 CPU, 2 GPU; 8 CPU, 2 GPU\. Lower",
        ),
        (
            [{"CPU": 8, "GPU": 2}],
            [{"CPU": 1, "GPU": 0.6}] * 3,
            r"ask for 3 CPU, 1\.8 GPU, in parts of more than half a GPU that take 3 GPUs, but the cluster has .*2 GPU",
        ),
    ],
)
def test_what_has_no_room_together_or_alone_is_refused(
    nodes: Nodes, bundles: Nodes, message: str, cluster: Callable[[Nodes], None]
) -> None:
    cluster(nodes)
    with pytest.raises(ValueError, match=message):
        check_cluster_resources(bundles)
