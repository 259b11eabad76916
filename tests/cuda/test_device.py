"""The CUDA front end: on simulated devices in a process of its own; the same checks on real ones, where there are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "on_device"


def run(simulated):
    """The checks in a fresh process, with so many simulated devices."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    env = {**inherited, "JITGRAD_CUDA_SIMULATOR": str(simulated), "PYTHONPATH": str(FOLDER)}
    command = [
        sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-o",
        "python_files=check_*.py", str(FOLDER),
    ]  # fmt: skip
    done = subprocess.run(command, env=env, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_on_simulated_devices():
    run(2)


@pytest.mark.gpu
def test_on_real_devices():
    run(0)
