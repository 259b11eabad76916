"""`save` and `load`: what goes in comes out, in a file that other programs read too."""

import io
import json
from collections import Counter, OrderedDict

import numpy as np
import pytest
import safetensors.numpy

import jitgrad as jg


def round_trip(x):
    file = io.BytesIO()
    jg.save(x, file)
    file.seek(0)
    return jg.load(file)


def test_containers_and_numbers():
    x = {
        "a": [1, -2.5, "text", None, True, 3 + 4j, b"bytes"], "b": (jg.float16, (), [{}]), 7: float("inf"),
        (1, "k"): {1, 2}, "o": OrderedDict(z=1, a=2), "c": Counter([1, 1]), "n": np.arange(3), "s": np.float32(2),
        "size": jg.zeros(2, 3).shape, "big": 2**80,
    }  # fmt: skip
    y = round_trip(x)
    assert list(y) == list(x) and repr(y) == repr(x)
    assert isinstance(y["size"], jg.Size) and type(y["s"]) is np.float32
    assert np.isnan(round_trip(float("nan")))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
                                   "float32", "float64", "complex64", "complex128", "uint16", "uint32",
                                   "uint64"])  # fmt: skip
def test_tensors(dtype):
    for shape in [(), (0, 3), (2, 3)]:
        t = jg.arange(6)[: int(np.prod(shape))].reshape(shape).to(getattr(jg, dtype))
        y = round_trip([t])[0]
        assert y.dtype is t.dtype and y.shape == t.shape and y.tolist() == t.tolist()
    assert round_trip(jg.arange(6).reshape(2, 3).t()).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_identity_gradients_and_classes():
    p = jg.nn.Parameter(jg.ones(2))
    a, b, c = round_trip([p, p, jg.zeros(1, requires_grad=True)])
    assert a is b and isinstance(a, jg.nn.Parameter) and a.requires_grad and c.requires_grad
    a.data[0] = 5  # writable
    assert a.tolist() == [5, 1]


def test_training_goes_on_from_a_file(tmp_path):
    def start():
        jg.manual_seed(3)
        model = jg.nn.Sequential(jg.nn.Linear(4, 5), jg.nn.BatchNorm1d(5), jg.nn.Linear(5, 1))
        return model, jg.optim.Adam(model.parameters(), lr=0.01)

    def train(model, optimizer, steps):
        for i in range(steps):
            optimizer.zero_grad()
            loss = model(x + i).square().mean()
            loss.backward()
            optimizer.step()
        return loss.item()

    x = jg.randn(6, 4)
    model, optimizer = start()
    train(model, optimizer, 3)
    jg.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "checkpoint")
    want = train(model, optimizer, 3)
    model, optimizer = start()
    saved = jg.load(tmp_path / "checkpoint")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    assert train(model, optimizer, 3) == want
    assert [f.name for f in tmp_path.iterdir()] == ["checkpoint"]


def test_other_programs_read_and_write_the_file(tmp_path):
    path = tmp_path / "model.safetensors"
    layer = jg.nn.Linear(2, 3)
    jg.save(layer.state_dict(), path)
    arrays = safetensors.numpy.load_file(path)
    assert set(arrays) == {"weight", "bias"}
    np.testing.assert_array_equal(arrays["weight"], layer.weight.detach().numpy())
    safetensors.numpy.save_file({"x": np.arange(3.0)}, path)
    assert jg.load(path)["x"].tolist() == [0, 1, 2]


def test_torch_reads_bfloat16(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    jg.save({"x": jg.tensor([1.5, -2.0], dtype=jg.bfloat16)}, tmp_path / "x")
    x = load_file(tmp_path / "x")["x"]
    assert x.dtype == torch.bfloat16 and x.tolist() == [1.5, -2.0]


def test_what_cannot_be_saved_is_named(tmp_path):
    with pytest.raises(TypeError, match=r"save: a\.1: Linear cannot be saved.*state_dict"):
        jg.save({"a": [1, jg.nn.Linear(1, 1)]}, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_files_that_are_not_ours():
    for content in (b"", b"12345", b"PK\x03\x04" + bytes(100), (10).to_bytes(8, "little") + b"{not json}"):
        with pytest.raises(ValueError, match=r"neither a safetensors file nor|zip archive is damaged"):
            jg.load(io.BytesIO(content))
    file = io.BytesIO()
    metadata = {"jitgrad": json.dumps({"format": 99, "object": None})}
    file.write(safetensors.numpy.save({}, metadata))
    file.seek(0)
    with pytest.raises(ValueError, match="newer version"):
        jg.load(file)
