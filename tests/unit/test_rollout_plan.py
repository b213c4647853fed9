import pytest

from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan
from rllib_gigpo.env_runners.task_stream import FIRST_EVALUATION_TASK, TaskStream
from rllib_gigpo.inference.protocol import SamplingParams
from rllib_gigpo.seeds import derive_seed

pytestmark = pytest.mark.unit


def plan_of(num_groups: int) -> RolloutPlan:
    groups = tuple(GroupPlan(i, task=i, env_seed=i, sampling_seed=1000 + i) for i in range(num_groups))
    return RolloutPlan(groups, group_size=8, min_group_size=2, sampling=SamplingParams(max_response_tokens=4))


def test_a_seed_depends_on_its_parts_alone_and_on_their_order():
    # The value is written down: another process, machine or Python version must find the same.
    assert derive_seed(0, "sampling", 3) == 7132423730107449008
    assert derive_seed(0, 1) != derive_seed(1, 0)
    assert derive_seed("1") != derive_seed(1)
    assert 0 <= derive_seed(7) < 2**63


def test_request_seeds_differ_by_group_member_and_step():
    plan = plan_of(3)
    seeds = {group.request_seed(member, step) for group in plan.groups for member in range(4) for step in range(5)}
    assert len(seeds) == 3 * 4 * 5


@pytest.mark.parametrize(("groups", "parts"), [(8, 3), (2, 5), (6, 2), (0, 2)])
def test_a_split_keeps_every_group_whole_once_and_in_order(groups, parts):
    split = plan_of(groups).split(parts)
    assert len(split) == parts
    assert [group.group_id for part in split for group in part.groups] == list(range(groups))
    sizes = [len(part.groups) for part in split]
    assert max(sizes) - min(sizes) <= 1


def test_generated_tasks_depend_on_seed_and_cursor_and_never_meet_the_panel():
    first, second = TaskStream(0), TaskStream(1)
    tasks = [first.training_task(cursor) for cursor in range(1000)]
    assert tasks == [TaskStream(0).training_task(cursor) for cursor in range(1000)]
    assert tasks != [second.training_task(cursor) for cursor in range(1000)]
    assert max(tasks) < FIRST_EVALUATION_TASK
    assert first.evaluation_panel(4) == second.evaluation_panel(4) == [FIRST_EVALUATION_TASK + i for i in range(4)]


def test_explicit_tasks_are_dealt_once_an_epoch_in_changing_order():
    stream = TaskStream(0, tasks=["a", "b", "c", "d", "e", "f"])
    epochs = [[stream.training_task(6 * epoch + i) for i in range(6)] for epoch in range(5)]
    assert all(sorted(epoch) == list("abcdef") for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1
    # A cursor in the middle, as after a restore, finds the same task.
    assert TaskStream(0, tasks=list("abcdef")).training_task(14) == epochs[2][2]


def test_a_panel_larger_than_the_evaluation_tasks_is_refused():
    with pytest.raises(ValueError, match=r"evaluation_duration=3 .* evaluation_tasks holds \(2\)"):
        TaskStream(0, evaluation_tasks=["x", "y"]).evaluation_panel(3)
