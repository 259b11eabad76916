"""Common mistakes raise what PyTorch raises, with a message that names the rule."""

import re

import pytest

import jitgrad as jg
from jitgrad import nn

x, whole = jg.ones(2, 3), jg.tensor([1, 2])

MISTAKES = {
    "float of several elements": (lambda: float(x), ValueError, "only one element tensors"),
    "infinity among integers": (lambda: whole.masked_fill(whole > 1, float("-inf")), RuntimeError, "without overflow"),
    "int of several elements": (lambda: int(whole), ValueError, "only one element tensors"),
    "complex of several elements": (lambda: complex(x), ValueError, "only one element tensors"),
    "item of several elements": (lambda: x.item(), RuntimeError, "6 elements"),
    "fill_ with text": (lambda: jg.ones(2).fill_("a"), TypeError, "a number or a 0-d Tensor, not str"),
    "a negative eye": (lambda: jg.eye(-1), RuntimeError, "n must be greater or equal to 0, got -1"),
    "a wide negative eye": (lambda: jg.eye(1, -2), RuntimeError, "m must be greater or equal to 0, got -2"),
    "same padding with strides": (
        lambda: nn.Conv2d(1, 1, 3, stride=(1, 2), padding="same"),
        ValueError,
        "padding='same' is not supported for strided convolutions",
    ),
    "label smoothing above one": (
        lambda: nn.functional.cross_entropy(x, jg.tensor([0, 1]), label_smoothing=2.0),
        RuntimeError,
        "label_smoothing must be between 0.0 and 1.0",
    ),
    "shapes that do not broadcast": (lambda: x + jg.ones(4), RuntimeError, "axis -1 is 3 in one operand and 4"),
    "a dimension out of range": (lambda: x.sum(dim=2), IndexError, "Dimension out of range"),
    "an index out of range": (lambda: x[:, 7], IndexError, "index 7 is out of bounds for dimension 1 with size 3"),
    "ragged lists": (lambda: jg.tensor([[1, 2], [3]]), ValueError, "expected sequence of length 2 at dim 1"),
    "the mean of integers": (lambda: whole.mean(), RuntimeError, "mean(): could not infer output dtype"),
    "backward of a vector": (
        lambda: jg.ones(2, requires_grad=True).backward(),
        RuntimeError,
        "grad can be implicitly created only for scalar outputs",
    ),
    "a list for a layer": (lambda: nn.Linear(3, 2)([1, 2, 3]), TypeError, "must be Tensor, not list"),
    "a module that is none": (lambda: nn.Sequential(1), TypeError, "int is not a Module subclass"),
    "no parameters": (lambda: jg.optim.SGD([], lr=0.1), ValueError, "empty parameter list"),
    "a negative learning rate": (lambda: jg.optim.Adam([x], lr=-1), ValueError, "Invalid learning rate"),
    "one tensor for a list": (lambda: jg.optim.SGD(x, lr=0.1), TypeError, "iterable of Tensors"),
    "a batch of nothing": (lambda: jg.utils.data.DataLoader([1], batch_size=0), ValueError, "batch_size"),
    "operands that do not fit": (lambda: nn.Linear(4, 2)(x), RuntimeError, "input [2, 3] and weight [2, 4]"),
    "mixed dtypes": (lambda: nn.Linear(3, 2)(x.double()), RuntimeError, "operands must be of one numeric dtype"),
    "gradients of all leaves from grad": (
        lambda: jg.autograd.grad(x.sum(), x, only_inputs=False),
        ValueError,
        "only_inputs=False is not supported",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name):
    call, kind, message = MISTAKES[name]
    with pytest.raises(kind, match=re.escape(message)):
        call()


def test_one_element_becomes_a_number():
    assert (float(jg.tensor([[2.5]])), int(jg.tensor([3])), complex(jg.tensor(1.0))) == (2.5, 3, 1 + 0j)
    assert jg.zeros(2).fill_(True).tolist() == [1.0, 1.0]


def test_sizes_add_up_to_a_size():
    size = x.shape + (4,)  # noqa: RUF005
    assert isinstance(size, jg.Size) and size.numel() == 24 and str(size) == "jitgrad.Size([2, 3, 4])"


def test_scripts_that_ask_for_a_gpu_get_the_cpu():
    device = jg.device("cuda" if jg.cuda.is_available() else "cpu")
    jg.cuda.manual_seed_all(0)
    jg.cuda.manual_seed(0)
    assert jg.cuda.device_count() == 0 and jg.ones(1, device=device).device.type == "cpu"
