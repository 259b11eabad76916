"""`python -m jitgrad inspect`, `run`, `check` and `dump`."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A module, a training step and a function of containers, exported; and arrays for them."""
    folder = tmp_path_factory.mktemp("programs")
    jg.manual_seed(0)
    net = jg.nn.Sequential(jg.nn.Linear(8, 16), jg.nn.ReLU(), jg.nn.Linear(16, 3))
    dynamic = {"input": {0: "batch"}}
    jg.export(net, (jg.ones(4, 8),), dynamic=dynamic, metadata={"author": "nobody"}).save(folder / "net.jg")

    def pieces(inputs, scale):
        total = inputs["a"] + inputs["b"][0] * scale
        return {"sum": total, "parts": (total.sum(), total.mean())}

    example = {"a": jg.ones(3), "b": (jg.ones(3),)}
    jg.export(pieces, (example, jg.ones(3))).save(folder / "pieces.jg")

    w = jg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = jg.optim.SGD([w], lr=0.5)

    def step(x):
        optimizer.zero_grad()
        loss = ((w * x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    jg.export(step, (jg.ones(2),)).save(folder / "step.jg")
    rng = np.random.default_rng(0)
    np.save(folder / "x.npy", rng.standard_normal((5, 8)).astype(np.float32))
    np.save(folder / "three.npy", np.array([1, 2, 3], np.float32))
    np.save(folder / "ones.npy", np.ones(3, np.float32))
    np.save(folder / "two.npy", np.ones(2, np.float32))
    return folder


def answer(capsys, *arguments):
    """The exit code, and what `--json` prints."""
    code = main([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_inspect(capsys, folder):
    code, data = answer(capsys, "inspect", folder / "net.jg", "--size", "batch=7", "--text")
    assert code == 0 and data["name"] == "Sequential" and "f32[batch,8]" in data["signature"]
    assert data["sizes"] == {"batch": 7} and data["stats"]["parameters"] == 8 * 16 + 16 + 16 * 3 + 3
    assert data["stats"]["ops"]["linear"] == 2 and data["state"]["0.weight"] == "f32[16,8]"
    assert data["metadata"] == {"author": "nobody"} and "linear(" in data["text"]
    assert data["file_bytes"] == (folder / "net.jg").stat().st_size
    _, other = answer(capsys, "inspect", folder / "net.jg", "--size", "batch=14")
    assert other["stats"]["flops"] == 2 * data["stats"]["flops"]
    assert main(["inspect", str(folder / "net.jg")]) == 0
    out = capsys.readouterr().out
    assert "195" in out and "2 linear, 1 relu" in out and "author" in out


def test_run(capsys, folder, tmp_path):
    x = np.load(folder / "x.npy")
    want = jg.load_program(folder / "net.jg")(jg.from_numpy(x)).detach().numpy()
    target = tmp_path / "y.npy"
    code, data = answer(
        capsys, "run", folder / "net.jg", "--input", folder / "x.npy", "--output", target, "--repeat", "3"
    )
    (found,) = data["results"]
    assert code == 0 and found == {
        "name": "result",
        "type": "f32[5,3]",
        "file": str(target),
        "values": want.ravel().tolist(),
    }
    assert data["calls"] == 3 and data["median_call_ms"] > 0
    np.testing.assert_array_equal(np.load(target), want)
    assert main(["run", str(folder / "net.jg"), "--input", f"input={folder / 'x.npy'}"]) == 0
    assert "result: f32[5,3]\n  [[" in capsys.readouterr().out


def test_run_with_containers(capsys, folder, tmp_path):
    inputs = [f"inputs.b.0={folder / 'ones.npy'}", folder / "three.npy", f"scale={folder / 'three.npy'}"]
    code, data = answer(capsys, "run", folder / "pieces.jg", "--input", *inputs)
    found = {r["name"]: r["values"] for r in data["results"]}
    assert code == 0 and found == {"sum": [2.0, 4.0, 6.0], "parts.0": [12.0], "parts.1": [4.0]}
    code, data = answer(capsys, "run", folder / "pieces.jg", "--input", *inputs, "--output", tmp_path / "out.npy")
    assert [np.load(tmp_path / f"out-{k}.npy").tolist() for k in range(3)] == [[2.0, 4.0, 6.0], 12.0, 4.0]
    code, data = answer(capsys, "run", folder / "pieces.jg", "--input", *inputs, "--output", tmp_path)
    assert np.load(tmp_path / "parts.0.npy") == 12.0


def test_run_a_training_step(capsys, folder, tmp_path):
    saved = tmp_path / "after.jg"
    code, data = answer(
        capsys, "run", folder / "step.jg", "--input", folder / "two.npy", "--set", "lr=0.25", "--save", saved
    )
    assert code == 0 and data["results"][0]["values"] == [5.0]
    _, data = answer(capsys, "run", saved, "--input", folder / "two.npy")
    assert data["results"][0]["values"] == [1.25]  # w is half of what it was


def test_check(capsys, folder, tmp_path):
    assert answer(capsys, "check", folder / "net.jg") == (
        0, {"file": str(folder / "net.jg"), "sound": True, "problems": []},
    )  # fmt: skip
    data = bytearray((folder / "net.jg").read_bytes())
    data[-5] ^= 1
    changed = tmp_path / "changed.jg"
    changed.write_bytes(data)
    code, found = answer(capsys, "check", changed)
    assert code == 1 and not found["sound"] and "weights" in found["problems"][0]
    cut = tmp_path / "cut.jg"
    cut.write_bytes(data[:300])
    assert main(["check", str(cut)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"jitgrad: error: {cut}: line") and error.count("\n") == 1 and "Traceback" not in error


def test_dump(capsys, folder, tmp_path):
    code, data = answer(capsys, "dump", folder / "net.jg", tmp_path, "--size", "batch=16", "--measure")
    assert code == 0 and {"index.html", "00-traced.txt"} <= set(data["files"])
    text = (tmp_path / "000-Sequential" / "00-traced.txt").read_text()
    assert "f32[16,8]" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "{}/none.jg"], "no such file"),
        (["run", "{}/net.jg"], "no --input for input"),
        (["run", "{}/net.jg", "--input", "{}/none.npy"], "none.npy: No such file"),
        (["run", "{}/net.jg", "--input", "{}/net.jg"], "not a .npy file"),
        (["run", "{}/net.jg", "--input", "nonsense={}/x.npy"], "no argument is called 'nonsense'"),
        (["run", "{}/net.jg", "--input", "{}/x.npy", "{}/x.npy"], "2 inputs for 1 arguments"),
        (["run", "{}/net.jg", "--input", "input={}/x.npy", "input={}/x.npy"], "'input' is given twice"),
        (["run", "{}/net.jg", "--input", "{}/x.npy", "--repeat", "0"], "--repeat must be at least 1"),
        (["run", "{}/net.jg", "--input", "{}/x.npy", "--set", "lr=1"], "no number is called 'lr'"),
        (["run", "{}/step.jg", "--input", "{}/two.npy", "--set", "lr=fast"], "--set takes NAME=NUMBER"),
        (["run", "{}/net.jg", "--input", "{}/x.npy", "--device", "tpu"], "--device tpu"),
        (["run", "{}/net.jg", "--input", "{}/x.npy", "--device", "cuda:99"], "--device cuda:99"),
        (["inspect", "{}/net.jg", "--size", "batch"], "--size takes NAME=N"),
        (["dump", "{}/net.jg", "{}/dumps", "--size", "time=3"], "no dimension is called 'time'"),
        (["dump", "{}/net.jg", "{}/net.jg"], "is a file, and dumps go into a folder"),
        (["inspect", "{}"], "a folder without program.txt"),
        (["inspect", "/dev/null"], "neither a file nor a folder"),
    ],
)
def test_what_users_get_wrong(capsys, folder, arguments, message):
    arguments = [a.format(folder) for a in arguments]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("jitgrad: error: ") and error.count("\n") == 1 and message in error
    assert "pickle" not in error  # NumPy's advice for files it doesn't know
    code, data = answer(capsys, *arguments)
    assert code == 2 and message in data["error"]


def test_types_are_checked(capsys, folder):
    assert main(["run", str(folder / "net.jg"), "--input", str(folder / "three.npy")]) == 1
    error = capsys.readouterr().err
    assert "must be f32[batch,8]" in error and "Traceback" not in error


def test_arrays_of_all_kinds_are_read(capsys, folder, tmp_path):
    program = tmp_path / "add.jg"
    jg.export(lambda x, y: (x + 1, y * 2), (jg.ones(3), jg.ones(3, dtype=jg.bfloat16))).save(program)
    first = jg.load_program(program)(jg.ones(3), jg.ones(3, dtype=jg.bfloat16))
    np.save(tmp_path / "big.npy", np.ones(3, ">f4"))
    np.save(tmp_path / "narrow.npy", first[1].numpy())
    code, data = answer(capsys, "run", program, "--input", tmp_path / "big.npy", tmp_path / "narrow.npy")
    assert code == 0 and [r["values"] for r in data["results"]] == [[2.0] * 3, [4.0] * 3]
    np.save(tmp_path / "words.npy", np.array(["a"]))
    code, data = answer(capsys, "run", program, "--input", tmp_path / "words.npy", tmp_path / "narrow.npy")
    assert code == 2 and "words.npy: not numbers" in data["error"]


def test_a_broken_file_is_named(capsys, folder, tmp_path):
    whole = (folder / "net.jg").read_bytes()
    for size in (300, len(whole) - 100):
        broken = tmp_path / f"first-{size}.jg"
        broken.write_bytes(whole[:size])
        assert main(["inspect", str(broken)]) == 1
        assert capsys.readouterr().err.startswith(f"jitgrad: error: {broken}: ")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_an_answer_that_cannot_be_written(folder):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "jitgrad", "inspect", str(folder / "net.jg")]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "jitgrad: error: the answer can't be written: No space left on device\n"
