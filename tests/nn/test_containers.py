"""Containers: indexing, slices, insertion and removal, as in PyTorch."""

from collections import OrderedDict

import pytest

import jitgrad as jg
from jitgrad import nn


def kinds(modules):
    return [type(m).__name__ for m in modules]


def test_sequential():
    s = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    assert list(s.state_dict()) == [] and s.a is s[0] and kinds(s[1:]) == ["Tanh"]
    assert list(s[1:]._modules) == ["b"]
    s = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    del s[1]
    assert list(s._modules) == ["0", "1"] and kinds(s) == ["ReLU", "Sigmoid"]
    s.insert(1, nn.GELU()).append(nn.Identity())
    assert kinds(s) == ["ReLU", "GELU", "Sigmoid", "Identity"]
    s[-1] = nn.SiLU()
    assert kinds(s.pop(slice(0, 2)) if False else s) == ["ReLU", "GELU", "Sigmoid", "SiLU"]
    assert kinds(s + nn.Sequential(nn.ReLU())) == ["ReLU", "GELU", "Sigmoid", "SiLU", "ReLU"]
    assert kinds(nn.Sequential(nn.ReLU()) * 3) == ["ReLU"] * 3
    with pytest.raises(IndexError):
        s[9]
    with pytest.raises(TypeError):
        nn.Sequential(3)


def test_module_list():
    m = nn.ModuleList(nn.Linear(i + 1, 1) for i in range(3))
    assert len(m) == 3 and m[-1].in_features == 3 and len(list(m.parameters())) == 6
    m.insert(0, nn.ReLU())
    m += [nn.Tanh()]
    assert kinds(m) == ["ReLU", "Linear", "Linear", "Linear", "Tanh"]
    del m[1:3]
    assert list(m._modules) == ["0", "1", "2"]
    assert kinds(m[1:]) == ["Linear", "Tanh"] and kinds(m + nn.ModuleList([nn.ReLU()]))[-1] == "ReLU"
    assert kinds([m.pop(0)]) == ["ReLU"] and len(m) == 2


def test_module_dict():
    m = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Linear(1, 1)})
    m.update([("c", nn.Tanh())])
    assert list(m) == ["a", "b", "c"] and "b" in m and kinds(m.values()) == ["ReLU", "Linear", "Tanh"]
    assert isinstance(m.pop("a"), nn.ReLU) and len(m) == 2
    del m["b"]
    assert list(m.keys()) == ["c"]
    m.clear()
    assert not list(m.items())
    with pytest.raises(TypeError):
        m.update(3)


def test_parameter_containers():
    p = nn.ParameterList([jg.zeros(2), nn.Parameter(jg.ones(1))])
    p.append(jg.zeros(3))
    assert len(p) == 3 and all(isinstance(x, nn.Parameter) for x in p)
    assert list(p.state_dict()) == ["0", "1", "2"] and len(p[1:]) == 2
    assert "(0): Parameter containing: [jitgrad.float32 of size 2]" in repr(p)
    d = nn.ParameterDict({"a": jg.zeros(2)})
    d["b"] = jg.ones(1)
    assert list(d) == ["a", "b"] and list(d.state_dict()) == ["a", "b"]
    del d["a"]
    assert "a" not in d and len(d) == 1
    with pytest.raises(KeyError):
        d["a"]


@pytest.mark.torch
def test_parameter_dict_like_pytorchs():
    torch = pytest.importorskip("torch")

    def run(lib):
        d = lib.nn.ParameterDict({"b": lib.ones(1), "a": lib.ones(2)})
        out = [list(d), [name for name, _ in d.named_parameters()], list(reversed(d))]
        out.append(list(lib.nn.ParameterDict(OrderedDict(b=lib.ones(1), a=lib.ones(2)))))
        out.append(list(lib.nn.ParameterDict([("b", lib.ones(1)), ("a", lib.ones(2))])))
        both, other = d | {"c": lib.ones(3)}, {"z": lib.ones(1)} | d
        out += [list(both), list(other), list(d.copy()), list(d.fromkeys(["x", "y"]).items())]
        out += [d.get("missing"), d.get("a") is d["a"], d.setdefault("d", lib.ones(4)).shape[0], len(d)]
        out += [d.popitem()[0], d.pop("a").shape[0], list(d), "a" in d]
        d |= {"e": lib.ones(1)}
        out.append(sorted(d.state_dict()))
        d.clear()
        return [*out, len(d), list(d.parameters())]

    assert run(jg) == run(torch)
