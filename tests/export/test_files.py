"""Program files: the same bytes for the same program, read by others, refused where broken, and readable for good."""

import json
import os
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from export.independent_reader import Program as IndependentProgram

import jitgrad as jg
from jitgrad import nn
from jitgrad.export.versions import VERSION
from jitgrad.ir.errors import ArgumentError, ParseError

Scores = namedtuple("Scores", "mean best")
STORED = Path(__file__).parent / "stored"
X = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)


def make(seed=0):
    jg.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    return jg.export(
        model, (jg.ones(2, 3),), dynamic={"input": {0: "batch"}}, metadata={"epoch": 3, "tags": ["a", None]}
    )


def test_the_same_program_gives_the_same_bytes(tmp_path):
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    script.write_text(
        "import sys\nimport jitgrad as jg\nfrom jitgrad import nn\njg.manual_seed(0)\n"
        "f = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5))\n"
        "jg.export(f, (jg.ones(2, 3),), dynamic={'input': {0: 'n'}}, metadata={'b': 1, 'a': 2}).save(sys.argv[1])\n"
    )
    for i, cwd in enumerate((tmp_path, "/")):
        environment = {**os.environ, "PYTHONHASHSEED": str(i)}
        subprocess.run([sys.executable, str(script), str(tmp_path / f"{i}.jg")], check=True, cwd=cwd, env=environment)
    assert (tmp_path / "0.jg").read_bytes() == (tmp_path / "1.jg").read_bytes()
    again = jg.load_program(tmp_path / "0.jg")
    again.save(tmp_path / "2.jg")
    assert (tmp_path / "2.jg").read_bytes() == (tmp_path / "0.jg").read_bytes()
    assert 'at "script.py:6"' in again.text


def test_a_file_and_a_folder_hold_the_same(tmp_path):
    program = make()
    program.save(tmp_path / "p.jg")
    program.save(tmp_path / "folder", folder=True)
    a, b = jg.load_program(tmp_path / "p.jg"), jg.load_program(tmp_path / "folder")
    assert a.text == b.text == program.text and a.metadata == {"epoch": 3, "tags": ["a", None]}
    want = program(jg.from_numpy(X)).numpy()
    for p in (a, b):
        np.testing.assert_array_equal(p(jg.from_numpy(X)).numpy(), want)
    weights = safetensors.numpy.load_file(tmp_path / "folder" / "weights.safetensors")
    np.testing.assert_array_equal(weights["0.weight"], program.state["0.weight"].detach().numpy())
    program.save(tmp_path / "folder")  # a folder that is there stays one
    assert not [n for n in os.listdir(tmp_path / "folder") if n.startswith(".")]
    raw = (tmp_path / "p.jg").read_bytes()
    offset = int(re.search(rb"weights here (\d+)", raw)[1])
    assert offset % 64 == 0 and set(safetensors.numpy.load(raw[offset:])) == set(weights)


def test_an_independent_reader_runs_it(tmp_path):
    def f(x, y):
        h = (x @ y + 1.5).tanh().mean(1, keepdim=True)
        return h.expand(-1, 2) * 2, h.reshape(-1)

    program = jg.export(f, (jg.ones(2, 3), jg.ones(3, 4)), dynamic={"x": {0: "n"}})
    for p, args in [(make(), (X,)), (program, (X, np.ones((3, 4), np.float32)))]:
        p.save(tmp_path / "p.jg")
        got = IndependentProgram(tmp_path / "p.jg")(*args)
        want = p(*map(jg.from_numpy, args))
        for a, b in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_allclose(a, b.numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
                                   "float32", "float64", "complex64", "complex128"])  # fmt: skip
def test_state_of_every_dtype(dtype, tmp_path):
    w = jg.arange(6).reshape(2, 3).to(getattr(jg, dtype))
    empty, scalar = jg.zeros(0, 2, dtype=w.dtype), w[1, 1].clone()
    program = jg.export(lambda x: (w.flip(0), empty, scalar, x), (jg.ones(1),))
    program.save(tmp_path / "p.jg")
    again = jg.load_program(tmp_path / "p.jg")
    flipped, nothing, one, _ = again(jg.ones(1))
    assert flipped.dtype is w.dtype and flipped.tolist() == w.flip(0).tolist() and one.tolist() == scalar.tolist()
    assert nothing.shape == (0, 2) and again.check() == []


def test_weights_are_mapped_and_stay_as_they_are(tmp_path):
    program = make()
    program.save(tmp_path / "p.jg")
    before = (tmp_path / "p.jg").read_bytes()
    again = jg.load_program(tmp_path / "p.jg")
    memory = again.state["0.weight"].detach().numpy()
    while memory.base is not None and not isinstance(memory, np.memmap):
        memory = memory.base
    assert "mmap" in type(memory).__name__
    again.state["0.weight"].detach().zero_()
    again.state["2.bias"] = jg.tensor([1.0, 2.0])
    assert again(jg.from_numpy(X)).shape == (5, 2) and (tmp_path / "p.jg").read_bytes() == before
    with pytest.raises(ArgumentError, match=r"state '2.bias' is f32\[2\]; it can't be f32\[3\]"):
        again.state["2.bias"] = jg.ones(3)
    with pytest.raises(KeyError, match="the program's state has no 'x'"):
        again.state["x"]


def test_a_failed_save_leaves_what_was_there(tmp_path, monkeypatch):
    program = make()
    program.save(tmp_path / "p.jg")
    before = (tmp_path / "p.jg").read_bytes()
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        make(1).save(tmp_path / "p.jg")
    assert os.listdir(tmp_path) == ["p.jg"] and (tmp_path / "p.jg").read_bytes() == before


def edited(tmp_path, old, new):
    make().save(tmp_path / "folder", folder=True)
    path = tmp_path / "folder" / "program.txt"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return tmp_path / "folder"


BROKEN = {
    "version": ("jitgrad program 1", "jitgrad program 99", "line 1, column 17: the format's version is 99"),
    "dimension": ("f32[batch,3]", "f32[b,3]", r"line \d+, column \d+: there is no dimension called 'b'"),
    "type": ("f32[batch,4]", "f32[batch,5]", r"line \d+, column \d+: the types of the results are f32\[2,4\], not"),
    "op": ("tanh(", "than(", r"line \d+, column \d+: there is no op called 'than'"),
    "kind": (": parameter", ": weight", r"line \d+, column \d+: no kind of state is called 'weight'"),
    "input": ('"input" = %input', '"input" = %inputs', "line 5, column .*: %inputs is no input of the graph"),
    "twice": ('"0.bias" = %"0.bias"', '"0.bias" = %"0.weight"', r"line 7, column 18: %\"0.weight\" is there twice"),
    "output": ("result output 0", "result output 1", "there is no output 1"),
    "bounds": ("batch = 2, min 1", "batch = 2, min 3", "line 4, column 5: length 2 does not fit batch >= 3"),
    "weights": ("weights beside", "weights here 5", "they can't begin at byte 5"),
    "size": ("bytes ", "bytes 1", "weights: the file ends at byte"),
    "magic": ("jitgrad program", "program", "is no jitgrad program"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_text_is_an_error_with_its_place(name, tmp_path):
    old, new, message = BROKEN[name]
    with pytest.raises((ParseError, ArgumentError), match=message) as caught:
        jg.load_program(edited(tmp_path, old, new))
    assert "program.txt" in str(caught.value)


def test_broken_weights_are_an_error(tmp_path):
    make().save(tmp_path / "p.jg")
    whole = (tmp_path / "p.jg").read_bytes()
    offset = int(re.search(rb"weights here (\d+)", whole)[1])
    length = int.from_bytes(whole[offset : offset + 8], "little")
    header = json.loads(whole[offset + 8 : offset + 8 + length])

    def attempt(change):
        made = json.loads(json.dumps(header))
        change(made)
        raw = json.dumps(made, separators=(",", ":")).encode().ljust(length)[:length]
        (tmp_path / "q.jg").write_bytes(whole[: offset + 8] + raw + whole[offset + 8 + length :])
        with pytest.raises(ParseError) as caught:
            jg.load_program(tmp_path / "q.jg")
        return str(caught.value)

    assert "'0.bias' should be F32 of shape [4]" in attempt(lambda h: h["0.bias"].update(dtype="I32"))
    assert "data_offsets of '0.bias'" in attempt(lambda h: h["0.bias"].update(data_offsets=[0, 4]))
    assert "data_offsets of '0.bias'" in attempt(lambda h: h["0.bias"].update(data_offsets=[-8, 8]))
    assert "'0.bias' is missing" in attempt(lambda h: h.pop("0.bias"))
    (tmp_path / "q.jg").write_bytes(whole[:-4])
    with pytest.raises(ParseError, match="weights: the file ends at byte"):
        jg.load_program(tmp_path / "q.jg")
    (tmp_path / "q.jg").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert jg.load_program(tmp_path / "q.jg").check() == [
        "weights: they are not those that were written: the SHA-256 differs"
    ]


def test_other_files_and_no_files(tmp_path):
    (tmp_path / "x").write_bytes(b"PK\x03\x04")
    with pytest.raises(ArgumentError, match="is no jitgrad program"):
        jg.load_program(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        jg.load_program(tmp_path / "nothing")


def test_source_lines_can_be_left_out(tmp_path):
    make().save(tmp_path / "p.jg", locations=False)
    assert b" at " not in (tmp_path / "p.jg").read_bytes() and jg.load_program(tmp_path / "p.jg").check() == []


def train():
    jg.manual_seed(1)
    layer = nn.Linear(3, 2)
    optimizer = jg.optim.Adam(layer.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = layer(nn.functional.dropout(x, 0.5)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return jg.export(step, (jg.ones(4, 3),), dynamic={"x": {0: jg.export.Dim("batch", 1, 64)}})


def store(version):
    """Write the stored files of a new version of the format: once, when it is made."""
    for name, program in (("inference", make()), ("training", train())):
        program.save(STORED / f"v{version}-{name}.jg")
        np.save(STORED / f"v{version}-{name}.npy", program(jg.from_numpy(X)).detach().numpy())


def test_there_are_files_of_every_version():
    stored = {p.name for p in STORED.glob("v*.jg")}
    assert stored == {f"v{v}-{name}.jg" for v in range(1, VERSION + 1) for name in ("inference", "training")}


@pytest.mark.parametrize("path", sorted(STORED.glob("v*.jg")), ids=lambda p: p.name)
def test_files_of_every_version_are_read(path):
    program = jg.load_program(path)
    assert program.check() == []
    np.testing.assert_allclose(program(jg.from_numpy(X)).numpy(), np.load(path.with_suffix(".npy")), 1e-5)


def test_names_of_records_mean_nothing_to_python(tmp_path):
    program = jg.export(lambda x: Scores(x, x), (jg.ones(1),))
    program.save(tmp_path / "p.jg")
    raw = (tmp_path / "p.jg").read_bytes()
    for old, new in [(b'"best"', b'"__init__"'), (b'"best"', b'"a b"'), (b'"Scores"', b'"a.b"')]:
        (tmp_path / "q.jg").write_bytes(raw.replace(old, new))
        with pytest.raises(ParseError, match=r"line \d+, column \d+: "):
            jg.load_program(tmp_path / "q.jg")


def test_saving_where_nothing_can_be_names_the_file(tmp_path):
    program = jg.export(lambda x: x * 2, (jg.ones(3),))
    target = tmp_path / "missing" / "program.jg"
    with pytest.raises(FileNotFoundError) as caught:
        program.save(target)
    assert caught.value.filename == str(target)
