"""The short examples run, and show what they are there to show."""

import importlib.util

from examples.documents import ROOT


def run(name, capsys, *args):
    """What the example prints."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(*args)
    return capsys.readouterr().out


def test_compile_function(capsys):
    out = run("compile_function", capsys)
    difference = float(out.splitlines()[0].rpartition(" ")[2])
    assert difference < 1e-5  # float32 sums of 32 products, in another order
    assert "2 specialisations" in out and "(0 compiled, 1 reused)" in out
    assert "arg query: dim 1 32 -> 100" in out


def test_graph_dumps(capsys, tmp_path):
    out = run("graph_dumps", capsys, str(tmp_path))
    (folder,) = tmp_path.iterdir()
    assert {p.name for p in folder.iterdir()} >= {"00-traced.txt", "graph.dot", "graph.svg", "index.html"}
    assert "layer_norm[rank=1]" in out and "kernel(" in out and "a step takes" in out


def test_export_program(capsys, tmp_path):
    out = run("export_program", capsys, str(tmp_path))
    assert out.startswith("step(x: f32[batch,2], target: i64[batch], *, ")
    first, last = (float(word) for word in out.splitlines()[1].split()[1:4:2])
    assert last < first / 2 and "after 90 steps" in out and 'metadata {"task": "greater"}' in out
    assert {p.name for p in tmp_path.iterdir()} == {"step.jg", "trained.jg"}


def test_custom_op(capsys):
    out = run("custom_op", capsys)
    assert "0.2500, 0.4444, 0.0625" in out  # 1 / (1 + |x|)**2
    assert "0.2500, -0.5926, -0.0312" in out  # -2 sign(x) / (1 + |x|)**3
    assert "1 kernels" in out


def test_every_example_has_a_test():
    """Here, or in a file of its own; what other examples import is tested with them."""
    text = (ROOT / "tests" / "examples" / "test_examples.py").read_text(encoding="utf-8")
    code = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")}
    elsewhere = {name for name in code if (ROOT / "tests" / "examples" / f"test_{name}.py").exists()}
    parts = {name for name in code if any(f"from {name} import" in other for other in code.values())}
    names = set(code) - elsewhere - parts
    assert all(f'run("{name}"' in text for name in names), names


def test_explain_calls(capsys):
    out = " ".join(run("explain_calls", capsys).split())  # wherever its lines break
    assert "arg x: dim 0 8 -> 9" in out and "arg x: f32[9,16] -> f64[9,16]" in out
    assert "self.training is True" in out and "(0 compiled, 1 reused)" in out
    assert "in branches.clipped: False -> True" in out and out.count("segment ended") == 6
