"""Without a device, a driver or the packages: one clear sentence, and nothing else breaks."""

import subprocess
import sys

import pytest

import jitgrad as jg

SCRIPT = """
import importlib.util, sys
missing = {missing!r}
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in missing else find(name, *rest)
import jitgrad as jg
assert not {{"cuda", "cupy", "numba", "llvmlite"}} & set(sys.modules)
assert not jg.cuda.is_available() and jg.cuda.device_count() == 0
try:
    jg.ones(2, device="cuda")
except RuntimeError as error:
    print(error.message)
"""


def message(*missing):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(missing=missing)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_the_packages():
    said = message("cuda.bindings")
    assert said.startswith(
        "CUDA is not available: the package cuda-bindings is not installed: pip install 'jitgrad[cuda"
    )
    assert said.endswith("use device='cpu'") and "\n" not in said


@pytest.mark.skipif(jg.cuda.is_available(), reason="there is a device")
def test_without_a_device():
    with pytest.raises(RuntimeError, match=r"^CUDA is not available: .*; use device='cpu'") as raised:
        jg.zeros(2).to("cuda")
    first = raised.value.message
    for attempt in (
        lambda: jg.rand(2, device="cuda:0"), lambda: jg.tensor([1]).cuda(), lambda: jg.nn.Linear(2, 2).cuda(),
        lambda: jg.nn.Linear(2, 2, device="cuda"), lambda: jg.cuda.synchronize(), lambda: jg.cuda.current_device(),
        lambda: jg.cuda.Stream(), lambda: jg.set_default_device("cuda"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError) as raised:
            attempt()
        assert raised.value.message == first


@pytest.mark.skipif(jg.cuda.is_available(), reason="there is a device")
def test_what_works_without_a_device():
    assert jg.cuda.memory_allocated() == jg.cuda.max_memory_reserved() == 0 and jg.cuda.memory_stats() == {}
    jg.cuda.empty_cache()
    jg.cuda.manual_seed_all(3)
    jg.cuda.reset_peak_memory_stats()
    assert str(jg.device("cuda:1")) == "cuda:1" and not jg.cuda.is_bf16_supported()
    x = jg.ones(2)
    assert x.pin_memory() is x and not x.is_pinned() and x.cpu() is x and x.to("cpu:0") is x
    assert not jg.cuda.is_current_stream_capturing() and jg.cuda.get_arch_list() == []


def test_names_of_devices():
    for name in ("cuda:x", "cuda:-1", "tpu", "mps"):
        with pytest.raises(RuntimeError):
            jg.zeros(1, device=name)
    with pytest.raises(TypeError, match="device must be"):
        jg.zeros(1, device=1.5)
