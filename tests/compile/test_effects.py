"""Printing, logging and clocks inside compiled functions happen at each call."""

import contextlib
import io
import logging
import time

from programs_compared import agree

import jitgrad as jg
from jitgrad.compiler.effects import may_have_effects


def test_printing_and_logging():
    def program(compile):
        logger, told = logging.Logger("told"), []
        logger.addHandler(logging.Handler())
        logger.handlers[0].emit = lambda record: told.append(record.getMessage())

        class Net(jg.nn.Module):
            def forward(self, x):
                print("forward", file=out)
                return x * 2

        def log(x):
            logger.info("step")
            return x + 1

        def write(x):
            out.write("written")
            return x + 1

        out = io.StringIO()
        net, log, write = compile(Net()), compile(log), compile(write)
        for _ in range(3):
            with contextlib.redirect_stdout(out):
                yield net(jg.ones(2)), log(jg.ones(2)), write(jg.ones(2))
            yield out.getvalue(), told

    agree(program)


def test_clocks():
    def program(compile):
        f = compile(lambda x: (x * 2, time.perf_counter()))
        times = [f(jg.ones(2))[1] for _ in range(4)]
        yield times == sorted(set(times))

    agree(program)


def test_code_that_mentions_no_effect_is_traced_without_looking():
    @jg.compile
    def f(x):
        return (x.log() * 2).exp()

    @jg.compile
    def g(x):
        if x is None:
            print("never")
        return x * 2

    for _ in range(3):
        assert f(jg.ones(2)).tolist() == [1.0, 1.0]
        assert g(jg.ones(2)).tolist() == [2.0, 2.0]
    assert not may_have_effects(f._f, ())
    assert may_have_effects(g._f, ())
    assert len(g.explain().specialisations) == 1
