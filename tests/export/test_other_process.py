"""Exported in one process, run in another that has none of the source: equal to eager at three batch sizes."""

import subprocess
import sys

import numpy as np
import pytest

import jitgrad as jg

BATCHES = (1, 4, 9)
EXPORT = """
import sys
import numpy as np
sys.path.insert(0, {tests!r})
import jitgrad as jg
from export.models import Cnn, Lstm, train_step

jg.manual_seed(3)
def batch(n):
    random = np.random.default_rng(n)
    image = random.standard_normal((n, 3, 17, 20)).astype(np.float32)
    return map(jg.from_numpy, (image, random.integers(0, 20, (n, 5)), random.integers(0, 20, (n, 5))))

cnn, lstm, step, layer = Cnn().eval(), Lstm(), train_step(), jg.nn.LSTM(20, 6, 2, batch_first=True)
image, tokens, targets = batch(3)
jg.export(cnn, (image,), dynamic={{"x": {{0: "batch"}}}}).save("cnn.jg")
jg.export(lstm, (tokens,), dynamic={{"tokens": {{0: "batch"}}}}).save("lstm.jg", folder=True)
jg.export(layer, (jg.ones(3, 5, 20),), dynamic={{"input": {{0: "batch"}}}}).save("layer.jg")
jg.export(step, (tokens, targets), dynamic={{"tokens": {{0: "batch"}}, "targets": {{0: "batch"}}}}).save("step.jg")
arrays = {{}}
for n in {batches}:
    image, tokens, targets = batch(n)
    out = lstm(tokens)
    arrays[f"layer{{n}}"] = layer(jg.nn.functional.one_hot(tokens, 20).float())[0]
    arrays |= {{f"image{{n}}": image, f"tokens{{n}}": tokens, f"targets{{n}}": targets}}
    arrays |= {{f"cnn{{n}}": cnn(image), f"scores{{n}}": out["scores"], f"h{{n}}": out["state"][0]}}
    arrays[f"loss{{n}}"] = step(tokens, targets)
np.savez("eager.npz", **{{k: v.detach().numpy() for k, v in arrays.items()}})
"""
RUN = """
import sys
import numpy as np
import jitgrad as jg

cnn, lstm, step, layer = (jg.load_program(f"{name}.jg") for name in ("cnn", "lstm", "step", "layer"))
given, got = np.load("eager.npz"), {}
for n in BATCHES:
    image, tokens, targets = (jg.from_numpy(given[f"{name}{n}"]) for name in ("image", "tokens", "targets"))
    out = lstm(tokens)
    got |= {f"cnn{n}": cnn(image), f"scores{n}": out["scores"], f"h{n}": out["state"][0]}
    got[f"loss{n}"] = step(tokens, targets)
    got[f"layer{n}"] = layer(jg.nn.functional.one_hot(tokens, 20).float())[0]
assert "export.models" not in sys.modules
np.savez("program.npz", **{k: v.numpy() for k, v in got.items()})
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("programs")
    tests = str(request.path.parent.parent)
    for name, text in [("export.py", EXPORT.format(tests=tests, batches=BATCHES)), ("run.py", f"{BATCHES = }\n{RUN}")]:
        script = folder / f"{name.removesuffix('.py')}_script.py"
        script.write_text(text)
        done = subprocess.run([sys.executable, script.name], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("n", BATCHES)
@pytest.mark.parametrize("what", ["cnn", "scores", "h", "layer", "loss"])
def test_equals_eager(folder, what, n):
    want, got = (np.load(folder / f"{name}.npz")[f"{what}{n}"] for name in ("eager", "program"))
    assert want.shape == got.shape and want.dtype == got.dtype
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)  # sums are fused in another order


def test_signatures(folder):
    signatures = [str(jg.load_program(folder / f"{name}.jg").signature) for name in ("cnn", "lstm")]
    assert signatures == [
        "Cnn(x: f32[batch,3,17,20]) -> f32[batch,5]",
        "Lstm(tokens: i64[batch,5]) -> {'scores': f32[batch,5,20], 'state': (f32[batch,12], f32[batch,12])}",
    ]
