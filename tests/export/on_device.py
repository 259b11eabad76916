"""Programs on a CUDA device; run by `test_device.py` in a process that simulates one, or in one that has one."""

import sys
import tempfile
from pathlib import Path

import numpy as np

import jitgrad as jg
from jitgrad import nn
from jitgrad.ir.errors import DeviceError


def close(a, b):
    np.testing.assert_allclose(a.cpu().detach().numpy(), b.cpu().detach().numpy(), 1e-5, 1e-6)


def inference():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    program = jg.export(model, (jg.ones(2, 3),), dynamic={"input": {0: "n"}})
    x = jg.randn(5, 3)
    want = program(x)
    program.to("cuda")
    got = program(x.cuda())
    assert got.is_cuda and program.state["0.weight"].is_cuda and str(program.device) == "cuda:0"
    close(got, want)
    try:
        program(x)
    except DeviceError as error:
        assert "program.to() moves it" in str(error)
    else:
        raise AssertionError("an argument on another device was taken")


def training():
    model = nn.Linear(3, 2).cuda()
    optimizer = jg.optim.Adam(model.parameters())

    def step(x):
        optimizer.zero_grad()
        loss = model(nn.functional.dropout(x, 0.5)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    program = jg.export(step, (jg.ones(4, 3, device="cuda"),), dynamic={"x": {0: "n"}})
    path = Path(tempfile.mkdtemp()) / "step.jg"
    program.save(path)
    here, there = jg.load_program(path), jg.load_program(path).to("cuda")
    assert str(program.device) == str(there.device) == "cuda:0" and str(here.device) == "cpu"
    for n in (5, 2, 5):
        x = jg.randn(n, 3)
        want = step(x.cuda())
        for p in (program, there):
            close(p(x.cuda()), want)
        close(here(x), want)
    close(there.state["model.weight"], model.weight)


if __name__ == "__main__":
    if not jg.cuda.is_available():
        sys.exit("there is no device")
    inference()
    training()
