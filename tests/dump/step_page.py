"""The page of a small training step, for tests."""

import re
from pathlib import Path
from typing import Any

import jitgrad as jg
from jitgrad import nn
from jitgrad.dump.html_page import unpacked


def training_step() -> tuple[Any, jg.Tensor, jg.Tensor]:
    """A compiled step with modules, a loss, gradients and an update, and its arguments."""
    jg.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = jg.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return jg.compile(step), jg.randn(5, 6), jg.tensor([0, 1, 2, 1, 0])


def write_page(folder: Path) -> Path:
    """The page of the step, with measured times."""
    step, x, y = training_step()
    for _ in range(3):
        step(x, y)
    (written,) = step.dump(folder, measure=True)
    return written / "index.html"


def block(page: Path, name: str) -> Any:
    """The data of the block `name` of a page."""
    return unpacked(re.search(rf'id="{name}">([^<]*)<', page.read_text(encoding="utf-8"))[1])
