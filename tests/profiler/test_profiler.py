"""`jitgrad.profiler`: events of eager and compiled code, averages, schedules, and Chrome traces."""

import gzip
import json
import threading

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import dispatch, fast_path
from jitgrad.profiler import ProfilerAction, profile, record_function, schedule, tensorboard_trace_handler

F = jg.nn.functional


@pytest.fixture(scope="module")
def training():
    """A training step and its loader, warm."""
    model = jg.nn.Sequential(jg.nn.Linear(16, 32), jg.nn.ReLU(), jg.nn.Linear(32, 4))
    optimizer = jg.optim.SGD(model.parameters(), lr=0.1)
    data = jg.utils.data.TensorDataset(jg.randn(32, 16), jg.randint(0, 4, (32,)))

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    loader = jg.utils.data.DataLoader(data, batch_size=16)
    compiled = jg.compile(step)
    for x, y in loader:
        step(x, y), compiled(x, y)
    return step, compiled, loader


@pytest.fixture(scope="module")
def profiled(training):
    step, compiled, loader = training
    batch, products = jg.randn(3, 60, 60), jg.compile(lambda x: x @ x)
    products(batch)
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True) as p:
        products(batch)
        for x, y in loader:
            with record_function("eager part"):
                step(x, y)
            compiled(x, y)
    return p


def test_each_kind_of_work_is_an_event(profiled):
    kinds = {e.category for e in profiled.events()}
    assert {"op", "compiled", "executable", "kernel", "blas", "backward", "optimizer", "data", "annotation"} <= kinds
    names = [e.name for e in profiled.events()]
    assert names.count("eager part") == 2 and names.count("DataLoader.__next__") == 2
    assert names.count("Optimizer.step#SGD.step") == 2 and names.count("cross_entropy") == 2


def test_kernels_lie_inside_their_call(profiled):
    kernels = [e for e in profiled.events() if e.category in ("kernel", "blas", "host")]
    assert kernels and all(e.cpu_parent.category == "executable" for e in kernels)
    assert all(e.cpu_parent.start <= e.start <= e.end <= e.cpu_parent.end for e in kernels)
    (batch,) = [e for e in kernels if e.category == "blas"]
    assert batch.flops == 2 * 3 * 60**3 and batch.bytes == 3 * 4 * 3 * 60**2 and "matmul" in batch.args["ops"]
    products = [e for e in kernels if "tile_product" in e.args["ops"]]
    assert products and all(e.category == "kernel" and e.flops > 0 and e.bytes > 0 for e in products)
    assert max(e.flops for e in products) == 2 * 16 * 16 * 32
    assert any("test_profiler.py" in line for e in kernels for line in e.args["lines"])


def test_averages_and_their_table(profiled):
    averages = profiled.key_averages()
    linear = next(a for a in averages if a.key == "linear")
    assert linear.count == 4 and linear.cpu_memory_usage == 2 * 4 * (16 * 32 + 16 * 4)
    total = sum(e.cpu_time_total for e in profiled.events() if e.cpu_parent is None)
    assert averages.self_cpu_time_total == pytest.approx(total)
    text = averages.table(sort_by="self_cpu_time_total", row_limit=5)
    assert "Self CPU time total" in text and "more rows" in text and len(text.splitlines()) == 11
    by_shape = profiled.key_averages(group_by_input_shape=True)
    assert len([a for a in by_shape if a.key == "linear"]) == 2
    assert any("test_profiler.py" in a.stack[0] for a in profiled.key_averages(group_by_stack_n=1) if a.stack)
    with pytest.raises(ValueError, match="sort_by"):
        averages.table(sort_by="beauty")


def test_results_are_the_same_and_all_is_put_back(training):
    places = [(fast_path, "_SMALL"), (dispatch, "run_op"), (jg.compiler.CompiledFunction, "__call__")]
    before = [getattr(owner, name) for owner, name in places]
    x = jg.linspace(-2, 2, 400 * 300).reshape(400, 300)
    weight = jg.linspace(-1, 1, 300 * 20).reshape(300, 20)
    f = jg.compile(lambda x, w: ((x @ w).tanh().softmax(-1), x.sort()[0].cumsum(0), x.t() @ x))
    want = f(x, weight)
    with profile() as p:
        got = f(x, weight)
        strided = f(x[:, ::1].t().contiguous().t(), weight)
        with pytest.raises(ZeroDivisionError):
            _ = 1 // 0
    for a, b, c in zip(want, got, strided, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        np.testing.assert_allclose(c.numpy(), a.numpy(), rtol=1e-4, atol=1e-4)
    assert any(e.category == "host" for e in p.events())
    assert [getattr(owner, name) for owner, name in places] == before
    with pytest.raises(KeyError), profile():
        raise KeyError
    assert [getattr(owner, name) for owner, name in places] == before


def test_chrome_traces(profiled, tmp_path):
    plain, packed = tmp_path / "trace.json", tmp_path / "trace.json.gz"
    profiled.export_chrome_trace(plain)
    profiled.export_chrome_trace(str(packed))
    trace = json.loads(plain.read_text())
    assert json.loads(gzip.decompress(packed.read_bytes())) == trace
    complete = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(complete) == len(profiled.events())
    for e in complete:
        assert {"name", "cat", "pid", "tid", "ts", "dur", "args"} <= set(e) and e["dur"] >= 0 and e["ts"] >= 0
    assert any(e["ph"] == "M" and e["name"] == "thread_name" for e in trace["traceEvents"])
    profiled.export_stacks(tmp_path / "stacks.txt")
    assert "test_profiler.py" in (tmp_path / "stacks.txt").read_text()


def test_schedules(tmp_path):
    plan = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    actions = [plan(k) for k in range(10)]
    none, warm, record, save = ProfilerAction
    assert actions == [none, none, warm, record, save, none, warm, record, save, none]
    ready = []
    f = jg.compile(lambda x: (x * 2).sum())
    f(jg.ones(8))
    with profile(schedule=plan, on_trace_ready=lambda p: ready.append(p.events())) as p:
        for _ in range(10):
            f(jg.ones(8))
            p.step()
    assert len(ready) == 2
    for events in ready:
        assert next(e.name for e in events if e.category == "step").startswith("ProfilerStep#")
        assert len([e for e in events if e.category == "compiled"]) == 2
        assert not [e for e in events if e.category == "profiler"]  # that was in the warm-up
    with profile(on_trace_ready=tensorboard_trace_handler(tmp_path, use_gzip=True)):
        f(jg.ones(8))
    (file,) = tmp_path.iterdir()
    assert file.name.endswith(".pt.trace.json.gz")
    with pytest.raises(ValueError, match="active"):
        schedule(wait=1, warmup=1, active=0)


def test_threads_names_and_compilation():
    @record_function("decorated")
    def work():
        return jg.compile(lambda x: (x * 3.5).cos() + 0.125)(jg.ones(7))

    with profile() as p:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        work()
    found = [e for e in p.events() if e.name == "decorated"]
    assert len({e.thread for e in found}) == 2 == len(found)
    assert any(e.category == "compile" for e in p.events())
    with pytest.raises(jg.JitgradError, match="another profiler"), profile(), profile():
        pass
    with pytest.raises(RuntimeError, match="nothing has been recorded"):
        profile().events()


def test_names_inside_compiled_functions_are_scopes():
    @jg.compile
    def f(x):
        with record_function("attention"):
            return x * 2

    f(jg.ones(3))
    assert f.explain().specialisations[0].graph.nodes[-1].scope == ("attention",)
