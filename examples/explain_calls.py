"""What `explain()` says of a compiled perceptron, of a call that was traced again, and of a function with branches.

python examples/explain_calls.py
"""

import jitgrad as jg
from jitgrad import nn


def perceptron() -> None:
    """A compiled module: its guards, its kernels with the ops in them, and what they move."""
    model = jg.compile(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    for _ in range(3):
        model(jg.ones(8, 16))
    print("--- a perceptron\n")
    print(model.explain(measure=True))


def traced_again() -> None:
    """Another batch size is another trace, and no kernel; so is another dtype, with a kernel."""

    @jg.compile
    def scaled(x, factor):
        return (x * factor).softmax(-1)

    scaled(jg.ones(8, 16), 2)
    scaled(jg.ones(9, 16), 2)
    scaled(jg.ones(9, 16, dtype=jg.float64), 2)
    scaled(jg.ones(9, 16), 3)
    print("\n--- traced again, and why\n")
    print(scaled.explain())


def branches() -> None:
    """Each answer to `if` is a path of segments, walked without Python when it comes again."""

    @jg.compile
    def clipped(x):
        norm = x.square().sum().sqrt()
        if norm > 10:
            x = x * (10 / norm)
        if x.isnan().any():
            return jg.zeros_like(x)
        return x + 1

    for scale in (1, 100, float("nan"), 2, 200):
        clipped(jg.ones(4, 4) * scale)
    print("\n--- a function with branches\n")
    print(clipped.explain())


def main() -> None:
    """The three, one after another."""
    perceptron()
    traced_again()
    branches()


if __name__ == "__main__":
    main()
