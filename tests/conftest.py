"""What every test shares: a hermetic cache, the markers' meaning, golden files, Hypothesis profiles.

The tests run on the *installed* package, editable or not. The checkout's root is taken off `sys.path`
(where `python -m pytest` puts it), because there `jitgrad/` lies without `ir/` and `codegen/` inside.
"""

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
MAX_WORKERS = 8

sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]

hypothesis.settings.register_profile("stable", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("stable")  # another by --hypothesis-profile=explore


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--slow` and `--update-golden`."""
    parser.addoption("--slow", action="store_true", help="run the tests marked slow too")
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


def pytest_configure(config: pytest.Config) -> None:
    """Give the run a kernel cache of its own; xdist's workers inherit the controller's."""
    if not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="jitgrad-tests-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ["JITGRAD_CACHE_DIR"] = folder
        os.environ.setdefault("JITGRAD_CACHE_GRAPHS", "0")  # tests change what a graph's key takes for given
        os.environ["NUMBA_CACHE_DIR"] = folder
        os.environ["MPLBACKEND"] = "Agg"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`: as many workers as this process may use cores, within reason."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MAX_WORKERS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests unless asked for; skip those whose device or oracle is missing."""
    if not config.getoption("--slow"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
    for marker, is_present in (("torch", _has_torch), ("gpu", _has_gpu)):
        marked = [item for item in items if item.get_closest_marker(marker)]
        if marked and not is_present():
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=f"no {marker} here"))


def _has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def _has_gpu() -> bool:
    from numba import cuda

    return bool(cuda.is_available())


@pytest.fixture(autouse=True)
def no_class_is_asked_afterwards() -> Iterator[None]:
    """Public functions are what they were, whatever classes of tensors the test or its module has made."""
    yield
    if (overrides := sys.modules.get("jitgrad.overrides")) is not None:
        overrides.ask_no_more()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("fuse/softmax.txt", text)` compares with that file under `tests/golden/`."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists():
            pytest.fail(f"no golden file {path.relative_to(ROOT)}; make it with --update-golden")
        assert text == path.read_text(encoding="utf-8")

    return check
