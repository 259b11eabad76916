"""What `explain` tells: specialisations, guards in terms of the source, why calls missed, kernels, times, fallbacks."""

import logging
import threading
import warnings

import pytest

import jitgrad as jg
from jitgrad.compiler import counters

SCALE = 2.0


class Net(jg.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = jg.nn.Linear(16, 32), jg.nn.Linear(32, 4)
        self.residual = False

    def forward(self, x):
        h = self.first(x).relu() * SCALE
        return self.second(h) + x[:, :4] if self.residual else self.second(h)


def last_miss(compiled):
    return str(compiled.explain().misses[-1])


def test_guards_and_misses_in_terms_of_the_source(monkeypatch):
    net = jg.compile(Net())
    net(jg.ones(8, 16))
    (guards,) = net.explain().guards
    assert {"arg x: f32[8,16]", "self.training is True", "Net.forward: global SCALE == 2.0"} < set(guards)
    net(jg.ones(9, 16))
    assert last_miss(net) == "arg x: dim 0 8 -> 9"
    net.eval()(jg.ones(9, 16))
    assert last_miss(net) == "self.training: True -> False (and 2 inside)"
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    net(jg.ones(9, 16))
    assert last_miss(net) == "Net.forward: global SCALE: 2.0 -> 3.0"
    net.residual = True
    net(jg.ones(9, 16))
    assert last_miss(net) == "self.residual: False -> True"
    net.first.weight.requires_grad_(False)
    net(jg.ones(9, 16))
    assert "first.weight.requires_grad: True -> False" in last_miss(net)
    assert len(net.explain().specialisations) == 6


def test_arguments_modes_and_the_users_line():
    @jg.compile
    def f(x, scale=1.0, flag=None):
        return x * scale

    f(jg.ones(2, 3))
    f(jg.ones(2, 3).t())
    assert "arg x: dim 0 2 -> 3, dim 1 3 -> 2" in last_miss(
        f
    ) and "arg x strides: contiguous -> (4, 12) bytes" in last_miss(f)
    f(jg.ones(2, 3), flag="on")
    assert last_miss(f) == "arg flag: not given -> 'on'"
    f(jg.ones(2, 3, dtype=jg.float64))
    assert last_miss(f) == "arg x: f32[2,3] -> f64[2,3]"
    with jg.no_grad():
        f(jg.ones(2, 3))
    assert last_miss(f) == "grad mode: True -> False"
    x = jg.ones(2, 3, requires_grad=True)
    f(x)
    assert last_miss(f) == "arg x.requires_grad: False -> True"
    assert "test_explain.py" in str(f.explain().misses[-1].location)


def test_closures_and_what_called_functions_read():
    factor, table = 2, {"power": 2}

    def inner(x):
        return x ** table["power"]

    @jg.compile
    def f(x):
        return inner(x) * factor

    f(jg.ones(3))
    factor = 3
    f(jg.ones(3))
    assert last_miss(f) == "closure factor: 2 -> 3"
    table["power"] = 3
    f(jg.ones(3))
    assert "table['power']: 2 -> 3" in last_miss(f)


def test_segments_and_another_answer():
    @jg.compile
    def f(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    f(jg.ones(3)), f(jg.ones(3)), f(-jg.ones(3))
    shown = str(f.explain())
    assert last_miss(f).endswith("in test_segments_and_another_answer.f: True -> False")
    assert shown.count("segment ended: ") == 2 and "test_explain.py" in shown
    assert [s.runs for s in f.explain().specialisations] == [2, 1]


def test_gradients_that_are_there():
    w = jg.ones(3, requires_grad=True)

    @jg.compile
    def step(x):
        (w * x).sum().backward()

    step(jg.ones(3)), step(jg.ones(3))
    assert last_miss(step).endswith(".grad: None -> a tensor")


def test_steps_have_ops_bytes_flops_lines_and_times():
    f = jg.compile(lambda x, w: ((x @ w).tanh() + 1).sum())
    f(jg.ones(8, 16), jg.ones(16, 4))
    explanation = f.explain(measure=True)
    (steps,) = explanation.steps
    product = next(s for s in steps if "tile_product" in s.ops)
    assert product.flops == 2 * 8 * 16 * 4 and product.bytes == 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert {"tanh", "add", "sum"} <= {name for s in steps if s.kind == "kernel" for name in s.ops}
    assert all(s.us is not None and s.us >= 0 for s in steps) and "test_explain.py" in product.lines[0]
    assert f.explain().steps[0][0].us is None
    assert {"trace", "prepare", "fuse", "plan", "compile", "encode"} <= set(explanation.stages_ms)
    assert " µs" in str(explanation) and len(str(explanation).splitlines()) < 20


def test_host_steps_and_python_that_runs_are_told():
    @jg.compile
    def sorts(x):
        return x.sort()[0] + 1

    sorts(jg.ones(5))
    assert "run through NumPy on the host" in str(sorts.explain())

    @jg.compile
    def prints(x):
        print("", end="")
        return x + 1

    with pytest.warns(UserWarning, match="print"):
        for _ in range(3):
            prints(jg.ones(2))
    (rerun,) = prints.explain().eager
    assert "print" in rerun.reason and "print" in str(prints.explain())


def test_refused_values_are_counted():
    f = jg.compile(lambda x, i: x[i])
    x, bad = jg.ones(4), jg.tensor([9])
    f(x, jg.tensor([1]))
    with pytest.raises(IndexError):
        f(x, bad)
    assert "an op refused a value" in str(f.explain())


def test_on_recompile():
    def f(x):
        return x * 2

    strict = jg.compile(f, on_recompile="error")
    strict(jg.ones(3)), strict(jg.ones(3))
    with pytest.raises(jg.JitgradError, match=r"arg x: dim 0 3 -> 4") as caught:
        strict(jg.ones(4))
    assert "test_explain.py" in str(caught.value)
    strict(jg.ones(3))
    warning = jg.compile(f, on_recompile="warn")
    warning(jg.ones(3))
    with pytest.warns(UserWarning, match=r"arg x: dim 0 3 -> 4"):
        warning(jg.ones(4))
    with pytest.raises(ValueError, match="ignore, warn, error"):
        jg.compile(f, on_recompile="never")


def test_counters():
    before = counters.copy()
    f = jg.compile(lambda x: x.cos() * 1.25)
    f(jg.ones(3)), f(jg.ones(3)), f(jg.ones(4))
    made = counters - before
    assert (made.calls, made.traces, made.specialisations, made.fallbacks) == (3, 2, 2, 0)
    assert made.graphs == 2 and made.kernels + made.cache_hits == 2


def test_assert_no_compile_watches_its_own_thread():
    def elsewhere():
        for n in range(1, 4):
            jg.compile(lambda x, n=n: (x * n).sin().exp().sum() * 0.123)(jg.ones(n, n + 1))

    thread = threading.Thread(target=elsewhere)
    with jg.assert_no_compile(traces=True):
        thread.start()
        thread.join()
    f = jg.compile(lambda x: x * 2)
    with pytest.raises(jg.JitgradError, match="was traced"), jg.assert_no_compile(traces=True):
        f(jg.ones(2))
    with pytest.raises(KeyError), jg.assert_no_compile(traces=True):
        f(jg.ones(3))
        raise KeyError


def test_logs(caplog):
    f = jg.compile(lambda x: x * 2 if x.sum() > 0 else x)
    f(jg.ones(2))
    assert not caplog.records
    with caplog.at_level(logging.INFO, logger="jitgrad"):
        f(jg.ones(3))
        f(-jg.ones(3))
    told = {record.name for record in caplog.records}
    assert told == {"jitgrad.compile", "jitgrad.guards"}
    assert any("arg x: dim 0 2 -> 3" in record.getMessage() for record in caplog.records)
    assert not f.explain().eager  # jitgrad's own logging is no effect of the function


def test_forms_of_compile_and_undo():
    class Layer(jg.nn.Module):
        @jg.compile
        def forward(self, x):
            return x + 1

        @jg.compile(fullgraph=True)
        @staticmethod
        def double(x):
            return x * 2

        @staticmethod
        @jg.compile
        def triple(x):
            return x * 3

        @classmethod
        @jg.compile
        def name(cls, x):
            return x + len(cls.__name__)

        @jg.compile
        @classmethod
        def length(cls, x):
            return x - len(cls.__name__)

    layer, x = Layer(), jg.ones(2)
    results = [layer(x), layer.double(x), layer.triple(x), layer.name(x), Layer.length(x), Layer.double(x)]
    assert [r[0].item() for r in results] == [2, 2, 3, 6, -4, 2]
    net = Net()
    assert jg.compile(net) is net and jg.compiler.undo(net) is net
    with pytest.raises(jg.JitgradError, match="is not compiled"):
        net.explain()
    with pytest.raises(TypeError, match="the class Net"):
        jg.compile(Net)
    assert jg.compile(net.forward, disable=True) == net.forward
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jg.compile(mode="max-autotune", backend="inductor")(lambda x: x * 2)(x)[0].item() == 2
