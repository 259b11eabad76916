"""Files of PyTorch: read, written, shared memory kept; damaged ones and those with code in them refused."""

import collections
import contextlib
import io
import os
import pickle
import random
import zipfile

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.ir.errors import JitgradError

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
          "complex64", "complex128"]  # fmt: skip


def saved(x, **options):
    file = io.BytesIO()
    jg.save(x, file, format="pth", **options)
    return file.getvalue()


def loaded(content, **options):
    return jg.load(io.BytesIO(content), **options)


def everything():
    w = jg.arange(6).float()
    return {
        "w": [w, w[2:4], w.reshape(2, 3).t(), w.expand(2, 6)], "none": jg.zeros(0, 3), "number": jg.tensor(3),
        "p": jg.nn.Parameter(jg.ones(2), requires_grad=False), "g": jg.ones(2, requires_grad=True),
        "plain": [1, -5, 2**40, -(2**80), 1.5, float("inf"), None, True, "h\u00e9", b"\x00\xff", 3 + 4j, (1, (2,)), {1},
                  jg.Size([1]), jg.float16, jg.device("cpu"), frozenset([2]), bytearray(b"a")],
        7: {"a": (), "o": collections.OrderedDict(z=1, a=2), "c": collections.Counter([1, 1])},
        "array": np.arange(6).reshape(2, 3), "scalar": np.float32(2),
    }  # fmt: skip


def test_round_trip():
    x = everything()
    y = loaded(saved(x))
    assert repr(y) == repr(x)
    assert isinstance(y["p"], jg.nn.Parameter) and isinstance(y["plain"][13], jg.Size)
    assert y["g"].requires_grad and not y["p"].requires_grad
    a, part, turned, _ = y["w"]
    a[3] = 77
    assert part[1] == 77 and turned[0, 1] == 77 and part._version == 1  # they share memory
    assert saved(x) == saved(x)


def test_the_suffix_chooses_the_format(tmp_path):
    for name, is_zip in [("a.pth", True), ("a.pt", True), ("a.safetensors", False), ("a", False)]:
        jg.save({"x": jg.ones(2)}, tmp_path / name)
        assert zipfile.is_zipfile(tmp_path / name) == is_zip
        assert jg.load(tmp_path / name)["x"].tolist() == [1, 1]
    jg.save([1], tmp_path / "b.pth", format="safetensors")
    assert not zipfile.is_zipfile(tmp_path / "b.pth") and jg.load(tmp_path / "b.pth") == [1]
    with pytest.raises(ValueError, match="'pth' or 'safetensors', not 'onnx'"):
        jg.save([1], tmp_path / "c", format="onnx")
    with pytest.raises(TypeError, match=r"save: a\.1: Linear cannot be saved.*state_dict"):
        jg.save({"a": [1, jg.nn.Linear(1, 1)]}, tmp_path / "c.pth")
    assert sorted(os.listdir(tmp_path)) == ["a", "a.pt", "a.pth", "a.safetensors", "b.pth"]


def test_mapped_files_are_not_changed(tmp_path):
    jg.save({"x": jg.arange(1000), "y": jg.zeros(0)}, tmp_path / "x.pth")
    x = jg.load(tmp_path / "x.pth", mmap=True)["x"]
    x[0] = 5
    assert x[:3].tolist() == [5, 1, 2] and x.sum() == 499505
    assert jg.load(tmp_path / "x.pth")["x"][0] == 0


def test_places():
    names = []
    x = loaded(saved([jg.ones(2)]), map_location=lambda t, name: names.append(name))[0]
    assert names == ["cpu"] and x.tolist() == [1, 1]
    on_other = saved([jg.ones(2)]).replace(b"X\x03\x00\x00\x00cpu", b"X\x03\x00\x00\x00mps")
    on_other = without_checksums(on_other)
    with pytest.raises(RuntimeError, match="map_location='cpu'"):
        loaded(on_other)
    assert loaded(on_other, map_location="cpu")[0].tolist() == [1, 1]
    assert loaded(on_other, map_location={"mps": "cpu"})[0].tolist() == [1, 1]


def without_checksums(content):
    """The archive's checksums are set to 0, as PyTorch does on request, so that damage reaches what reads pickles."""
    out = bytearray(content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            at = out.index(b"PK\x01\x02", archive.start_dir)
            while out[at + 46 : at + 46 + len(info.filename)] != info.filename.encode():
                at = out.index(b"PK\x01\x02", at + 1)
            out[at + 16 : at + 20] = bytes(4)
    return bytes(out)


def archive_of(pickled, name="a/data.pkl"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, pickled)
    return file.getvalue()


class Runs:
    """Unpickled, this would run a program."""

    def __reduce__(self):
        return os.system, ("echo ran",)


@pytest.mark.parametrize(
    ("pickled", "named"),
    [
        (pickle.dumps(Runs(), 2), r"posix\.system"),
        (pickle.dumps(Runs(), 5), r"posix\.system"),
        (pickle.dumps(random.Random(), 2), r"random\.Random"),
        (b"\x80\x02cbuiltins\neval\n(X\x01\x00\x00\x001tR.", r"builtins\.eval"),
        (b"\x80\x02cbuiltins\nlist\n(cbuiltins\nrange\n(J\xff\xff\xff\x7ftRtR.", "calls list"),
        (b"\x80\x02cbuiltins\nset\n(cbuiltins\nrange\n(J\xff\xff\xff\x7ftRtR.", "range where a list belongs"),
        (b"\x80\x02ccollections\nOrderedDict\n)R}(X\x03\x00\x00\x00popNub.", "sets methods"),
        (b"\x80\x02]}b.", "sets attributes of a list"),
        (b"\x80\x02X\x01\x00\x00\x00a)R.", "calls a str"),
        (b"\x80\x02cnumpy\ndtype\n(X\x01\x00\x00\x00OtR.", "NumPy array of object"),
        (b"\x80\x02ctorch\nquint8\n.", r"torch\.quint8; there is no such dtype"),
        (b"(icollections\nOrderedDict\n.", "INST, which is refused"),
        (b"\x80\x02K\x01K\x02.", "damaged"),
        (b"\x80\x02(.", "damaged"),
        (b"\x80\x02r\xff\xff\xff\xff.", "damaged"),
        (b"\x80\x02]" + b"]a" * 3 + b"Q.", "no description"),
        (b"\x80\x02", "damaged"),
    ],
)
def test_what_is_not_data_is_refused_by_name(pickled, named, capfd):
    with pytest.raises(ValueError, match=named) as error:
        loaded(archive_of(pickled))
    assert isinstance(error.value, RuntimeError) and isinstance(error.value, pickle.UnpicklingError)
    assert "test_pth.py" in str(error.value)
    assert capfd.readouterr().out == ""


def test_other_archives_are_refused():
    with pytest.raises(RuntimeError, match=r"no data\.pkl"):
        loaded(archive_of(b"", "a/readme"))
    with pytest.raises(RuntimeError, match="tar file"):
        loaded(bytes(257) + b"ustar" + bytes(600))
    with pytest.raises(RuntimeError, match="another"):
        content = saved({"x": jg.arange(100)})
        at = content.index(np.arange(100).tobytes())
        loaded(content[:at] + b"\x01" + content[at + 1 :])


def test_tensors_stay_inside_their_storage():
    content = without_checksums(saved(jg.arange(300)))  # 300 = 0x012c, a shape and a count of elements
    number, larger = b"J" + (300).to_bytes(4, "little"), b"J" + (301).to_bytes(4, "little")
    first, second = content.index(number), content.rindex(number)
    assert first != second
    for at in (first, second):
        with pytest.raises(
            RuntimeError, match="should have 2408 bytes" if at == first else "beyond its storage of 300"
        ):
            loaded(content[:at] + larger + content[at + 5 :])


def broken(rng, content):
    """The content with some damage: cut, bits flipped, bytes replaced, left out or put in twice."""
    out, head = bytearray(content), min(len(content), 3000)
    kind = rng.randrange(5)
    if kind == 0:
        return bytes(out[: rng.randrange(len(out))])
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(head)
        if kind == 1:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            out[rng.randrange(len(out))] = rng.randrange(256)
        elif kind == 3:
            del out[at : at + rng.randrange(8)]
        else:
            out[at:at] = out[at : at + rng.randrange(8)]
    return bytes(out)


@pytest.mark.parametrize("count", [400, pytest.param(40_000, marks=pytest.mark.slow)])
def test_damaged_files_raise_our_errors(count):
    rng = random.Random(0)
    whole = saved(everything())
    files = [whole, without_checksums(whole)]
    outcomes = collections.Counter()
    for _ in range(count):
        try:
            loaded(broken(rng, rng.choice(files)))
            outcomes["read"] += 1
        except JitgradError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > count / 2


# with PyTorch -------------------------------------------------------------------------------------------------


def torch_file(torch, x, **options):
    file = io.BytesIO()
    torch.save(x, file, **options)
    return file.getvalue()


FORMATS = [{}, {"pickle_protocol": 5}, {"_use_new_zipfile_serialization": False}]


@pytest.mark.torch
@pytest.mark.parametrize("options", FORMATS, ids=["zip", "protocol 5", "stream"])
def test_reads_what_torch_writes(options):
    torch = pytest.importorskip("torch")
    w = torch.arange(6.0)
    x = {
        "v": [w, w[2:4], w.reshape(2, 3).t()], "p": torch.nn.Parameter(torch.ones(2)), "size": torch.Size([1]),
        "d": torch.device("cpu"), "plain": [torch.bfloat16, b"x", {1}, 1j, -(2**70), slice(1, 2)],
        "conjugate": torch.tensor([1 + 2j]).conj(), "array": np.arange(3), "scalar": np.float64(2.5),
        "buffer": torch.nn.Buffer(torch.ones(1)), "default": collections.defaultdict(list, a=[1]),
        **{name: torch.tensor([0, 1, 1]).to(getattr(torch, name)) for name in DTYPES},
    }  # fmt: skip
    y = loaded(torch_file(torch, x, **options))
    assert list(y) == list(x)
    for name in DTYPES:
        assert y[name].dtype is getattr(jg, name) and y[name].tolist() == x[name].tolist()
    assert [t.tolist() for t in y["v"]] == [t.tolist() for t in x["v"]]
    y["v"][0][2] = 9
    assert y["v"][1].tolist() == [9, 3] and y["v"][2][2, 0] == 9
    assert isinstance(y["p"], jg.nn.Parameter) and y["p"].requires_grad
    assert y["size"] == (1,) and y["d"] == jg.device("cpu") and y["plain"] == [jg.bfloat16, *x["plain"][1:]]
    assert y["conjugate"].tolist() == [1 - 2j] and y["array"].tolist() == [0, 1, 2] and y["scalar"] == 2.5
    assert y["buffer"].tolist() == [1] and y["default"]["b"] == []


@pytest.mark.torch
@pytest.mark.parametrize("weights_only", [True, False])
def test_torch_reads_what_is_written(weights_only, tmp_path):
    torch = pytest.importorskip("torch")
    x = everything()
    if weights_only:
        del x["array"], x["scalar"], x["plain"][-2:]
    x |= {name: jg.tensor([0, 1, 1]).to(getattr(jg, name)) for name in DTYPES}
    jg.save(x, tmp_path / "x.pth")
    for mmap in (False, True):
        y = torch.load(tmp_path / "x.pth", weights_only=weights_only, mmap=mmap)
        assert list(y) == list(x)
        for name in DTYPES:
            assert y[name].dtype == getattr(torch, name) and y[name].tolist() == x[name].tolist()
        assert [t.tolist() for t in y["w"]] == [t.tolist() for t in x["w"]]
        assert len({t.untyped_storage().data_ptr() for t in y["w"]}) == 1
        assert y["plain"][:13] == x["plain"][:13] and y["plain"][14] is torch.float16 and y[7] == x[7]
        assert type(y["p"]) is torch.nn.Parameter and y["g"].requires_grad and y["none"].shape == (0, 3)


def models(lib):
    return lib.nn.Sequential(
        lib.nn.Conv2d(1, 3, 3), lib.nn.BatchNorm2d(3), lib.nn.Flatten(), lib.nn.Linear(12, 2), lib.nn.GELU()
    )


def step(lib, model, optimizer, x):
    optimizer.zero_grad()
    loss = model(lib.tensor(x)).square().sum()
    loss.backward()
    optimizer.step()
    return loss.item()


@pytest.mark.torch
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam"])
def test_training_goes_on_in_the_other_library(name, tmp_path):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((3, 1, 4, 4)).astype(np.float32)
    options = {"lr": 0.01, **({"momentum": 0.9} if name == "SGD" else {})}
    libs = {"torch": torch, "jg": jg}
    for first, second in (("torch", "jg"), ("jg", "torch")):
        a, b = libs[first], libs[second]
        model = models(a)
        optimizer = getattr(a.optim, name)(model.parameters(), **options)
        for _ in range(2):
            step(a, model, optimizer, x)
        a.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "c.pth")
        other = models(b)
        there = getattr(b.optim, name)(other.parameters(), **options)
        state = b.load(tmp_path / "c.pth")
        assert str(other.load_state_dict(state["model"])) == "<All keys matched successfully>"
        there.load_state_dict(state["optimizer"])
        for _ in range(3):
            np.testing.assert_allclose(step(b, other, there, x), step(a, model, optimizer, x), rtol=2e-4)


@pytest.mark.torch
@pytest.mark.parametrize("options", FORMATS, ids=["zip", "protocol 5", "stream"])
def test_damaged_files_of_torch_raise_our_errors(options):
    torch = pytest.importorskip("torch")
    whole = torch_file(torch, {"m": models(torch).state_dict(), "n": [1, "a", {2}]}, **options)
    files = [whole] if "_use_new_zipfile_serialization" in options else [whole, without_checksums(whole)]
    rng = random.Random(1)
    for _ in range(300):
        with contextlib.suppress(JitgradError):
            loaded(broken(rng, rng.choice(files)))


@pytest.mark.torch
def test_what_there_is_no_tensor_for_is_named():
    torch = pytest.importorskip("torch")
    sparse = torch.sparse_coo_tensor([[0]], [1.0], (2,), check_invariants=True)
    for x, named in [
        (sparse, "_rebuild_sparse_tensor.*no such tensors"),
        (torch.ones(1).to(torch.float8_e4m3fn), "float8_e4m3fn"),
    ]:
        with pytest.raises(RuntimeError, match=named):
            loaded(torch_file(torch, [x]))
    assert loaded(torch_file(torch, torch.arange(3, dtype=torch.uint8).untyped_storage())).tolist() == [0, 1, 2]


@pytest.mark.torch
@pytest.mark.parametrize("options", FORMATS, ids=["zip", "protocol 5", "stream"])
def test_whole_modules_are_refused(options):
    torch = pytest.importorskip("torch")
    with pytest.raises(
        RuntimeError, match=r"asks for torch\.nn\.modules\.linear\.Linear, which is refused.*state_dict"
    ):
        loaded(torch_file(torch, torch.nn.Linear(1, 1), **options))
