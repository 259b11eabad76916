"""Programs on CUDA devices: simulated ones in a process of their own, real ones where there are any."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jitgrad as jg

SCRIPT = Path(__file__).parent / "on_device.py"


def run(**environment):
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_simulated():
    run(JITGRAD_CUDA_SIMULATOR="1")


@pytest.mark.gpu
def test_real():
    run(JITGRAD_CUDA_SIMULATOR="0")


def test_without_a_device():
    program = jg.export(lambda x: x + 1, (jg.ones(2),))
    assert program.to("cpu") is program
    if not jg.cuda.is_available():
        with pytest.raises(RuntimeError):
            program.to("cuda")
    assert program(jg.ones(2)).tolist() == [2, 2]
