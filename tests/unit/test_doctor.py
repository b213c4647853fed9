"""`rllib doctor`: what is wrong with a machine is said, with the way to repair it; this machine has what it takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner

from rllib_gigpo import registry
from rllib_gigpo.cli.main import app
from rllib_gigpo.env_checks.check_result import Status
from rllib_gigpo.machine_checks import all_checks, packages
from rllib_gigpo.machine_checks.memory import container_memory, judged_shared_memory
from rllib_gigpo.machine_checks.packages import compare
from rllib_gigpo.machine_checks.processes import judged_ray_folder
from rllib_gigpo.machine_checks.torch_build import gpus_unseen
from tests.alfworld_cases import needs_alfworld

pytestmark = pytest.mark.unit

GIB = 2**30


@pytest.mark.parametrize(
    ("version", "status", "words"),
    [
        ("2.60.1", Status.PASS, "ray 2.60.1"),
        ("2.60.0rc1", Status.PASS, "ray 2.60.0rc1"),
        (None, Status.FAIL, "ray is not installed"),
        ("2.59.0", Status.FAIL, "ray 2.59.0 is installed, ==2.60.* is needed"),
        ("2.61.0", Status.WARNING, "ray 2.61.0 is installed"),
    ],
)
def test_packages_are_compared_with_what_is_asked_for(version: str | None, status: Status, words: str) -> None:
    (result,) = compare([Requirement("ray[rllib]==2.60.*")], lambda name: version, "packages")
    assert result.status == status
    assert words in result.seen
    assert ("pip install 'ray[rllib]==2.60.*'" in result.fix) == (status != Status.PASS)


def test_an_extra_of_which_nothing_is_installed_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    # As after an installation without any: the package itself is there, of which "search-dense" asks for an extra.
    only_itself = {packages.DISTRIBUTION: "0.1.0"}
    monkeypatch.setattr(packages, "installed_version", only_itself.get)
    found = {result.name: result.status for result in packages.check_extras()}
    assert "extra search-dense" in found
    assert set(found.values()) == {Status.NOT_APPLICABLE}


def test_the_reason_why_torch_sees_no_gpu_is_told_apart() -> None:
    assert gpus_unseen(has_device=False, built_for=None, visible=None).status == Status.INFO
    hidden = gpus_unseen(has_device=True, built_for="12.8", visible="")
    assert hidden.status == Status.WARNING
    assert "unset CUDA_VISIBLE_DEVICES" in hidden.fix
    cpu_build = gpus_unseen(has_device=True, built_for=None, visible=None)
    assert (cpu_build.status, cpu_build.fix) == (Status.FAIL, "install the CUDA build of torch")
    assert "driver" in gpus_unseen(has_device=True, built_for="12.8", visible="0,1").fix


def test_shared_memory_of_a_container_is_too_small_for_the_object_store() -> None:
    # Docker's default, and a full one.
    small = judged_shared_memory(64 * 2**20, 64 * 2**20, 32 * GIB)
    assert small.status == Status.WARNING
    assert "--shm-size=10g" in small.fix
    assert judged_shared_memory(16 * GIB, 2**20, 32 * GIB).status == Status.FAIL
    assert judged_shared_memory(16 * GIB, 15 * GIB, 32 * GIB).status == Status.PASS


def test_a_container_s_limit_of_memory_is_read(tmp_path: Path) -> None:
    assert container_memory(tmp_path) == (None, 0)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert container_memory(tmp_path) == (None, 1000)
    (tmp_path / "memory.max").write_text("5000\n")
    assert container_memory(tmp_path) == (5000, 1000)


def test_a_folder_too_deep_for_sockets_is_found(tmp_path: Path) -> None:
    assert judged_ray_folder(Path("/tmp")).status == Status.PASS
    assert "export RAY_TMPDIR=/tmp" in judged_ray_folder(Path("/" + "a" * 60)).fix
    assert judged_ray_folder(tmp_path / "no").status == Status.FAIL


def test_a_check_that_raises_has_failed_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken():
        raise OSError("libcudart.so.12 is not there")
        yield

    monkeypatch.setattr(all_checks, "_CHECKS", (("torch", broken), ("open files", all_checks.check_open_files)))
    first, second = all_checks.check_machine()
    assert (first.status, first.seen) == (Status.FAIL, "OSError: libcudart.so.12 is not there")
    assert second.name == "open files"


@needs_alfworld
def test_the_data_of_alfworld_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from rllib_gigpo.env_adapters.alfworld.machine_check import check_machine

    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    (unset,) = check_machine()
    assert unset.status == Status.WARNING
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    (empty,) = check_machine()
    assert empty.seen.endswith("lacks train, valid_seen, valid_unseen")
    for split in ("train", "valid_seen", "valid_unseen"):
        (tmp_path / "json_2.1.1" / split / "a task").mkdir(parents=True)
    (whole,) = check_machine()
    assert "train 1, valid_seen 1, valid_unseen 1" in whole.seen


def test_the_command_looks_at_everything_here_and_finds_nothing_to_repair() -> None:
    result = CliRunner().invoke(app, ["doctor", "--json"])
    found = json.loads(result.stdout)
    assert result.exit_code == 0, [entry for entry in found if entry["status"] == "fail"]
    names = {entry["name"].partition(",")[0] for entry in found}
    assert {"python", "packages", "torch", "torchvision", "vllm", "environments", "memory", "disk"} <= names
    assert {"shared memory", "open files", "temporary folder"} <= names
    (environments,) = (entry["seen"] for entry in found if entry["name"] == "environments")
    assert set(registry.environment_names()) - {"ALFWorld"} <= set(environments.removesuffix(" load").split(", "))


def test_the_command_fails_where_something_must_be_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_checks, "_CHECKS", (("temporary folder", all_checks.check_temporary_folder),))
    monkeypatch.setenv("RAY_TMPDIR", "/" + "a" * 60)
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "-> export RAY_TMPDIR=/tmp" in result.stdout
