"""The CUDA front end and runtime. The same checks (`on_device/`) run in processes of their own:

- on simulated devices, kernels interpreted;
- on simulated devices, kernels as the source that a device would get, in Numba's simulator;
- through `hardware`, on a driver made of host memory;
- on real devices, where there are.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "on_device"


def run(**environment):
    """The checks in a fresh process."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    command = [
        sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-o", "python_files=check_*.py",
        str(FOLDER),
    ]  # fmt: skip
    env = {**inherited, "PYTHONPATH": str(FOLDER), **environment}
    done = subprocess.run(command, env=env, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_interpreted_on_simulated_devices():
    run(JITGRAD_CUDA_SIMULATOR="2")


def test_kernel_source_on_simulated_devices():
    pytest.importorskip("numba_cuda")
    run(JITGRAD_CUDA_SIMULATOR="2", NUMBA_ENABLE_CUDASIM="1")


def test_hardware_on_a_driver_made_of_host_memory():
    pytest.importorskip("cuda.bindings")
    run(JITGRAD_CUDA_SIMULATOR="0", JITGRAD_TESTS_FAKE_DRIVER="1")


@pytest.mark.gpu
def test_real_devices():
    run(JITGRAD_CUDA_SIMULATOR="0")
