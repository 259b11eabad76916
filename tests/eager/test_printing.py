"""Tensors print as PyTorch's do."""

import pytest

import jitgrad as jg

TENSORS = """
L.tensor(14.)
L.tensor(3)
L.tensor(True)
L.tensor(1e-5)
L.tensor(1.5)
L.tensor(123456789.)
L.tensor(float('nan'))
L.tensor(-float('inf'))
L.tensor(2-3j)
L.tensor([1, 2, 3])
L.tensor([-1, 20, 300])
L.tensor([True, False])
L.tensor([1.5, float('nan'), float('inf')])
L.tensor([1., float('nan'), -float('inf')])
L.tensor([float('nan'), float('nan')])
L.tensor([0., -0.])
L.tensor([1e10, 1.])
L.tensor([1e-5, 1.])
L.tensor([1e8, 1.5])
L.tensor([99999.5, 1.5])
L.tensor([0.00001, 123.])
L.tensor([-1.5, 100.25])
L.tensor([16777216.0])
L.tensor([1+2j, 3-4.5j])
L.tensor([1e-7+2j, 3-400j])
L.tensor([complex(float('nan'), 1)])
L.tensor([])
L.zeros(2, 0)
L.zeros(0, dtype=L.int64)
L.zeros(0, dtype=L.float64)
L.zeros(2, 0, 3, dtype=L.int32)
L.arange(30)
L.arange(30.) / 7
L.arange(1000)
L.arange(1001)
L.arange(2000).reshape(20, 100)
L.arange(2000.).reshape(2, 10, 100) / 3
L.arange(1200.).reshape(400, 3)
L.arange(1200).reshape(3, 400)
L.zeros(3, 3, 3)
L.ones(2, 1, 1, 2, dtype=L.float64)
L.ones(3, dtype=L.float16)
L.ones(3, dtype=L.bfloat16) * 1.5
L.ones(3, dtype=L.int8)
L.ones(3, dtype=L.uint8)
L.ones(3, dtype=L.complex128)
L.ones(3, requires_grad=True)
L.ones(3, requires_grad=True) * 2
L.ones(30, requires_grad=True) * 1.5
L.ones(3, 15, requires_grad=True) * 1.5
L.ones(2, 0, requires_grad=True)
L.arange(1100., requires_grad=True)
L.ones(2, 3).expand(4, 2, 3)
L.ones(2, 3).T
L.ones(2, 3).shape
L.Size([])
L.float32
L.device('cpu')
L.ones(1).device
""".strip().splitlines()

OPTIONS = [
    {"precision": 2},
    {"threshold": 5},
    {"edgeitems": 2, "threshold": 3},
    {"linewidth": 64},
    {"sci_mode": True},
    {"sci_mode": False},
    {"profile": "short"},
    {"profile": "full"},
]


@pytest.mark.torch
@pytest.mark.parametrize("source", TENSORS)
def test_as_pytorch(source):
    torch = pytest.importorskip("torch")
    ours, theirs = (repr(eval(source, {"L": lib})) for lib in (jg, torch))
    assert ours == theirs.replace("torch.", "jitgrad.")


@pytest.mark.torch
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options):
    torch = pytest.importorskip("torch")
    for source in TENSORS:
        with jg.printoptions(**options):
            ours = repr(eval(source, {"L": jg}))
        torch.set_printoptions(**options)
        try:
            theirs = repr(eval(source, {"L": torch}))
        finally:
            torch.set_printoptions(profile="default")
        assert ours == theirs.replace("torch.", "jitgrad."), source


def test_unknown_profiles_are_refused():
    with pytest.raises(ValueError, match="profile"):
        jg.set_printoptions(profile="nope")


def test_formatting_a_number():
    assert f"{jg.tensor(2.5):.3f}" == "2.500"
    assert f"{jg.tensor(3)}" == "3"
    assert f"{jg.tensor([2.5])}" == "tensor([2.5000])"
    with pytest.raises(TypeError):
        f"{jg.tensor([2.5]):.3f}"
