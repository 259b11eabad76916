"""A training that was interrupted and goes on gives the bits of one that was not, wherever it was interrupted."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from training_program import make_loaders, make_trainer

import jitgrad as jg

PROGRAM = Path(__file__).resolve().parents[1] / "training_program.py"
STEPS = 18  # of three epochs


def everything(trainer):
    """All numbers of a training, by name; times apart."""
    found = {f"model {name}": x.numpy().copy() for name, x in trainer.model.state_dict().items()}
    for number, state in trainer.optimizer.state_dict()["state"].items():
        found |= {f"optimizer {number} {name}": np.array(x) for name, x in state.items()}
    for name in ("steps", "epochs"):
        columns = getattr(trainer.history, name).columns
        found |= {f"{name} {column}": np.array(x) for column, x in columns.items() if column != "seconds"}
    found["random"] = jg.get_rng_state().numpy()
    return found


def differing(a, b):
    assert a.keys() == b.keys()
    return [name for name in a if not np.array_equal(a[name], b[name], equal_nan=True)]


@pytest.mark.parametrize(
    ("num_workers", "own_generator", "accumulate", "cuts"),
    [(0, True, 1, (1, 6, 8)), (0, False, 1, (9,)), (2, True, 1, (4,)), (0, True, 2, (4,))],
    ids=["alone", "the default generator", "workers", "accumulation"],
)
def test_resumed_is_uninterrupted(tmp_path, num_workers, own_generator, accumulate, cuts):
    for name in ("warm up", "whole"):  # in a process, what a first step begins is compiled when it comes again
        whole = make_trainer(tmp_path / name, accumulate=accumulate)
        whole.fit(*make_loaders(num_workers, own_generator), epochs=3, steps=1 if name == "warm up" else None)
    want = everything(whole)
    for cut in cuts:
        folder = tmp_path / str(cut)
        first = make_trainer(folder, accumulate=accumulate)
        first.fit(*make_loaders(num_workers, own_generator), epochs=3, steps=cut)
        assert first.step == cut
        jg.manual_seed(99)
        again = make_trainer(folder, accumulate=accumulate)
        again.fit(*make_loaders(num_workers, own_generator), epochs=3, resume=True)
        assert differing(want, everything(again)) == []


def test_eagerly_without_kernels_too(tmp_path, monkeypatch):
    monkeypatch.setattr(jg.config, "compile", False)
    monkeypatch.setattr(jg.config, "compile_backward", False)
    whole = make_trainer(tmp_path / "whole", compiled=False)
    whole.fit(*make_loaders(), epochs=2)
    make_trainer(tmp_path, compiled=False).fit(*make_loaders(), epochs=2, steps=5)
    again = make_trainer(tmp_path, compiled=False)
    again.fit(*make_loaders(), epochs=2, resume=True)
    assert differing(everything(whole), everything(again)) == []


def run_program(folder, kill_at, where):
    return subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAM), str(folder), str(kill_at), where], capture_output=True, text=True
    )


@pytest.mark.parametrize(("kill_at", "where"), [(9, "step"), (8, "write")])
def test_a_killed_process_goes_on(tmp_path, kill_at, where):
    """Killed between checkpoints, or with half a checkpoint written, which is not the one that is read."""
    killed = run_program(tmp_path, kill_at, where)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert jg.load(tmp_path / "last.safetensors")["position"] == [1, (kill_at - 1) // 2 * 2 - 6, (kill_at - 1) // 2 * 2]
    assert (tmp_path / ".last.safetensors.tmp").exists() == (where == "write")
    resumed = run_program(tmp_path, 0, where)
    assert resumed.returncode == 0, resumed.stderr
    whole = run_program(tmp_path / "whole", 0, where)
    assert whole.returncode == 0, whole.stderr
    end, other = (jg.load(folder / "end") for folder in (tmp_path, tmp_path / "whole"))
    assert all((x == other["model"][name]).all() for name, x in end["model"].items())
    for name in ("loss", "lr", "accuracy", "grad_norm"):
        assert end["history"]["steps"][name].tolist() == other["history"]["steps"][name].tolist()
    assert len(end["history"]["steps"]["loss"]) == STEPS


@pytest.mark.slow
def test_a_process_killed_at_any_moment_leaves_a_whole_file(tmp_path):
    """A process that does nothing but save is killed at random moments; what it leaves loads, each time."""
    code = (
        "import sys, itertools, jitgrad as jg\n"
        "for i in itertools.count(): jg.train.save_durably({'i': i, 'x': jg.full((500_000,), float(i))}, sys.argv[1])\n"
    )
    path = tmp_path / "file"
    for delay in np.random.default_rng(0).uniform(0.0, 0.05, 10):
        process = subprocess.Popen([sys.executable, "-c", code, str(path)])
        while not path.exists():
            assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(delay)
        process.kill()
        process.wait()
        found = jg.load(path)
        assert (found["x"] == found["i"]).all()
        path.unlink()


def test_states_that_do_not_fit_are_refused(tmp_path):
    trainer = make_trainer(tmp_path)
    state = trainer.state_dict()
    with pytest.raises(ValueError, match="not a checkpoint of format 1"):
        trainer.load_state_dict({"model": {}})
    with pytest.raises(ValueError, match="has 1 callbacks, here are 2"):
        make_trainer(tmp_path, callbacks=[jg.train.Callback()]).load_state_dict(state)
