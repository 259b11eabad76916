"""Anomaly mode names the forward line: eagerly, in compiled functions and steps, and of custom functions."""

import pytest

import jitgrad as jg


def loss(x):
    y = x * 2
    return jg.sqrt(y - 10).sum()  # the line to be named


LINE = loss.__code__.co_firstlineno + 2


def step(x):
    return jg.autograd.grad(loss(x), x)[0]


@pytest.mark.parametrize("f", [loss, jg.compile(loss), step, jg.compile(step)])
def test_the_line_that_made_the_nan(f):
    x = jg.ones(3, requires_grad=True)
    f(x)  # compiled before
    for _ in range(2):
        with jg.autograd.detect_anomaly(), pytest.raises(RuntimeError, match=rf"SqrtBackward0.*\n.*py:{LINE} in loss"):
            out = f(x)
            if out.ndim == 0:
                out.backward()
    assert not jg.autograd.is_anomaly_enabled()


def test_a_custom_function_and_lines_alone():
    class Bad(jg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * float("nan")

    x = jg.ones(2, requires_grad=True)
    with jg.autograd.detect_anomaly(), pytest.raises(RuntimeError, match=r"BadBackward' returned nan.*\n.*test_anom"):
        Bad.apply(x).sum().backward()
    with jg.autograd.detect_anomaly(check_nan=False):
        Bad.apply(x).sum().backward()
    assert x.grad.isnan().all()
