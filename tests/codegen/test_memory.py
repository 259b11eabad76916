"""What compiling takes of memory is given back to the system."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, itertools, pathlib
from jitgrad.codegen import compile_graph
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.ops.attention import AttentionLse
from jitgrad.ir.types import TensorType

def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

b = Builder()
for dtype, causal, p in itertools.product((dtypes.float32, dtypes.float64), (False, True), (0.0, 0.5)):
    q = b.input(TensorType((40, 8), dtype))
    random = [b.input(TensorType((), dtypes.int64)) for _ in range(2)] if p else []
    b.emit(AttentionLse(1.0, causal, 1, p), q, q, q, *random)
run = compile_graph(b.build([node.results[0] for node in b.nodes]))
after = resident()
ctypes.CDLL(None).malloc_trim(0)
print(len(run.kernels), after - resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and asks glibc")
def test_what_compiling_has_taken_is_given_back(tmp_path):
    env = {**os.environ, "JITGRAD_CACHE_DIR": str(tmp_path), "JITGRAD_NUM_THREADS": "2"}
    told = subprocess.run([sys.executable, "-c", SCRIPT], env=env, check=True, text=True, capture_output=True).stdout
    kernels, left = told.split()
    assert int(kernels) == 8
    assert float(left) < 8  # MB; without giving back, 16
