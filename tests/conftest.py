"""Setup of all tests: one profile of Hypothesis, the marks of heavy and laboratory tests, and deselection of tests
whose reference data is missing."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import imported
import pytest
import reference_data
from hypothesis import HealthCheck, settings

from placewright.methods.table import METHODS

# The same examples everywhere, and nothing that a busy machine decides; ten times as many in make test-long.
_SAME = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("placewright", _SAME, max_examples=30)
settings.register_profile("thorough", _SAME, max_examples=300)
settings.load_profile("placewright")

# A process that a shell starts in the background ignores Ctrl-C; so would these tests and all that they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    if reference_data.FOLDER.is_dir():
        return [f"reference data: {reference_data.FOLDER}"]
    return [f"reference data: none in '{reference_data.FOLDER}' (PLACEWRIGHT_REFERENCE_DATA); its tests are left out"]


#: Packages that take long to import; modules that start processes, if a test module imports them itself; fixtures that
#: start processes.
HEAVY_PACKAGES = {"torch", "jax", "transformers", "playwright", "atheris"}
PROCESSES = {"subprocess", "multiprocessing", "command_line.process"}
HEAVY_FIXTURES = {"browser", "open_report"}


def is_heavy(item: pytest.Item) -> bool:
    path = Path(item.path)
    needed = imported.packages_of(path) & HEAVY_PACKAGES | imported.directly(path) & PROCESSES
    return bool(needed) or not HEAVY_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


LAB = Path(__file__).parent / "lab"


def is_of_lab(item: pytest.Item) -> bool:
    """True if it tests the laboratory: it is in that folder, or its parameter `name` is one of the lab's methods."""
    name = item.callspec.params.get("name") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    method = METHODS.get(name) if isinstance(name, str) else None
    return LAB in Path(item.path).parents or type(method).__module__.startswith("placewright.lab.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_of_lab(item):
            item.add_marker("lab")
    if "heavy" in config.option.markexpr:
        for item in items:
            if is_heavy(item):
                item.add_marker("heavy")
    if reference_data.FOLDER.is_dir():
        return
    left_out = [item for item in items if item.get_closest_marker("reference_data")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    executable = next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)
    if executable is None:
        pytest.skip(f"none of {', '.join(CHROMIUM_NAMES)} is installed")
    with playwright.sync_playwright() as session:
        launched = session.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield launched
        launched.close()
