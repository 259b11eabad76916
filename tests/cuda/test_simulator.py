"""The kernels of every family in Numba's CUDA simulator: blocks, threads, barriers and shared memory are real there."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("in_simulator.py")


@pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_families():
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {name: row["agree"] for name, row in report.items()} == {n: row["cases"] for n, row in report.items()}
    assert sum(row["kernels"] for row in report.values()) > 25
