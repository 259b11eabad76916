"""Eager tests interpret their gradients: what the compiled backward does is tested on its own."""

import pytest

import jitgrad as jg


@pytest.fixture(autouse=True)
def _interpreted_backward(monkeypatch):
    monkeypatch.setattr(jg.config, "compile_backward", False)
