"""The checks of `rllib doctor env` with a new process: every environment of ours passes, as the command tells."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rllib_gigpo import registry
from rllib_gigpo.cli.main import app
from rllib_gigpo.env_checks import Status
from rllib_gigpo.testing import check_env
from tests.alfworld_cases import needs_alfworld
from tests.environment_cases import checked, with_status
from tests.textarena_cases import needs_textarena
from tests.webshop_cases import needs_webshop

pytestmark = pytest.mark.integration

NEEDS = {
    "ALFWorld": needs_alfworld,
    "ALFWorldTiny": needs_alfworld,
    "WebShop": needs_webshop,
    "TextArena": needs_textarena,
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=NEEDS.get(name, ())) for name in registry.environment_names()],
)
def test_a_registered_environment_keeps_the_contract(name: str) -> None:
    # Of TextArena's tasks half start alike: they draw the seat of the player.
    results = check_env(name, episodes=8 if name == "TextArena" else 4)
    assert "determinism, new process" in with_status(results, Status.PASS)


def test_a_start_that_depends_on_the_salt_of_hashes_differs_in_a_new_process() -> None:
    failures = with_status(checked("SaltedHash", new_process=True), Status.FAIL)
    assert list(failures) == ["determinism, new process"], failures
    assert "Code" in failures["determinism, new process"]


def test_the_command_prints_a_line_a_check_and_exits_with_1_where_one_fails() -> None:
    good = CliRunner().invoke(app, ["doctor", "env", "NumberLine", "--episodes", "4"])
    assert good.exit_code == 0, good.output
    assert "pass           group" in good.stdout
    bad = CliRunner().invoke(app, ["doctor", "env", "NumberLine", "--env-config", '{"max_steps": 0}', "--json"])
    assert bad.exit_code == 1
    (only,) = json.loads(bad.stdout)
    assert only["status"] == "fail"
    unknown = CliRunner().invoke(app, ["doctor", "env", "NumbrLine"])
    assert unknown.exit_code == 2
    assert "unknown environment 'NumbrLine'" in unknown.stderr
