"""The registered environments: do they load, and is their data where they look for it."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator

from rllib_gigpo import registry
from rllib_gigpo.env_checks.check_result import CheckResult, described_error, failed, not_applicable, one_line, passed


def check_environments() -> Iterator[CheckResult]:
    """One result for those that load, and one for each that does not, or that has something to say of its data."""
    ready = []
    for name in registry.environment_names():
        try:
            entry = registry.environment(name)
            entry.load()
            found = list(pkgutil.resolve_name(entry.machine_check)()) if entry.machine_check else []
        except ImportError as error:
            # What an environment needs beyond the package is an extra, which nobody has to install.
            yield not_applicable(f"environment {name}", one_line(error))
            continue
        except Exception as error:  # importing it runs any code
            yield failed(f"environment {name}", described_error(error), "repair or uninstall its distribution")
            continue
        ready.append(name)
        yield from found
    yield passed("environments", f"{', '.join(ready)} load")
