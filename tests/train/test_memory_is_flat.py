"""Training keeps no memory: `bench/memory.py`, with the bounds as assertions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench" / "memory.py"
STEPS = 6000  # the second half comes after the calls at which small ops are made native, and their code is loaded
NOISE_MB, NOISE_OBJECTS = 2.0, 200  # the allocator's; a leaked step of this model is 0.1 MB and some 200 objects


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="sizes are read from Linux's /proc")
@pytest.mark.parametrize("way", ["eager", "compiled", "trainer"])
def test_memory_is_flat(way):
    command = [sys.executable, str(BENCH), "--way", way, "--steps", str(STEPS)]
    rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    (_, before, objects_before), (_, after, objects_after) = rows[1], rows[3]
    assert after - before < NOISE_MB
    assert objects_after - objects_before < NOISE_OBJECTS
