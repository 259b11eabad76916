"""A new op in one class: its meaning, its scalar rule and its gradient. Eager, differentiated and compiled.

python examples/custom_op.py

The op is a smooth activation, x / (1 + |x|). With the same class in a module of `ir/ops`, listed in that module's
`__all__`, it would be part of jitgrad: `jg.softsign`, `x.softsign()` and `x.softsign_()`.
"""

import numpy as np

import jitgrad as jg
from jitgrad.functions.pointwise import pointwise
from jitgrad.ir import scalar
from jitgrad.ir.op import Pointwise, op
from jitgrad.ir.ops.arithmetic import Abs
from jitgrad.ir.ops.formula import Term


@op
class Softsign(Pointwise):
    """x / (1 + |x|), elementwise (Bergstra et al. 2009)."""

    name = "softsign"
    public = ("softsign",)
    accepts = ("float",)
    promotes = "float"
    fast = False

    @staticmethod
    def ufunc(x):
        """In NumPy: what eager calls run, and what compiled ones are tested against."""
        return x / (1 + np.abs(x))

    def scalar(self, *xs):
        """One element, in the scalar language: what kernels are made of."""
        return xs[0] / (scalar.absolute(xs[0]) + 1.0)

    def vjp(self, b, operands, results, cotangents, needs):
        """g / (1 + |x|)², built of ops that are differentiable themselves."""
        g, x = Term(b, cotangents[0]), Term(b, operands[0])
        slope = x.apply(Abs()) + 1.0
        return ((g / (slope * slope)).value,)


def softsign(x: jg.Tensor) -> jg.Tensor:
    """The op on tensors: promotion and broadcasting as in all others."""
    return pointwise(Softsign(), x)


def main() -> None:
    """Value, first and second derivative; then compiled."""
    x = jg.tensor([-1.0, 0.5, 3.0], requires_grad=True)
    y = softsign(x)
    (first,) = jg.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = jg.autograd.grad(first.sum(), x)
    print("value            ", y)
    print("first derivative ", first.detach())
    print("second derivative", second)

    compiled = jg.compile(lambda t: softsign(t * 2) + 1)
    assert jg.allclose(compiled(x), softsign(x * 2) + 1)
    print(compiled.explain())


if __name__ == "__main__":
    main()
