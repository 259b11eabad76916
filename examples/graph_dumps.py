"""Look at what compiling a function makes of it: a page, and the same as text and numbers.

python examples/graph_dumps.py [folder]

Without a folder the dumps go to `dumps/`. Open the `index.html` that is named at the end: it has the graph at every
stage, the fused kernels with their loops, LLVM, assembly and times, and the memory they use. `JITGRAD_DUMP=folder`
does the same (but for the times) for all that a program compiles.
"""

import sys

import jitgrad as jg


class Layer(jg.nn.Module):
    """A linear layer with GELU, its rows normalised."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = jg.nn.Linear(inputs, outputs)
        self.norm = jg.nn.LayerNorm(outputs)

    def forward(self, x: jg.Tensor) -> jg.Tensor:
        """Rows in, rows out."""
        return self.norm(jg.nn.functional.gelu(self.linear(x)))


def main(folder: str = "dumps") -> None:
    """Compile a training step of two layers, then show what became of it."""
    jg.manual_seed(0)
    model = jg.nn.Sequential(Layer(32, 64), Layer(64, 16))
    optimizer = jg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @jg.compile
    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        optimizer.zero_grad()
        loss = jg.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = jg.randn(64, 32), jg.randn(64, 16)
    for _ in range(3):  # the first makes the optimizer's state, the second is captured
        step(x, y)

    forward = jg.compile(model[0])
    forward(x)
    print(f"--- a layer, drawn\n{jg.dump.draw(forward)}\n")

    (timing,) = jg.dump.measure(step)
    print(f"--- a step takes {timing.call:.0f} us, its slowest part {max(timing.steps):.0f} us\n")

    (written,) = step.dump(folder, measure=True)
    (kernels,) = written.glob("*-kernels.txt")
    fused = next(text for text in kernels.read_text().split("# step") if "kernel(" in text)
    print(f"--- the first fused kernel, from {kernels.name}\n{fused}")
    print(f"--- {written}:", *sorted(path.name for path in written.iterdir()), sep="\n    ")
    print(f"\nopen {written / 'index.html'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
