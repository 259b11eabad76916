"""Look at what compiling a function makes of it: the graph as captured, fused groups, kernels, LLVM, assembly.

python examples/graph_dumps.py [folder]

Without a folder the dumps go to `dumps/`. `JITGRAD_DUMP=folder` does the same for all that a program compiles.
"""

import sys
from pathlib import Path

import jitgrad as jg
from jitgrad.ir.picture import draw


def layer(x: jg.Tensor, weight: jg.Tensor, bias: jg.Tensor) -> jg.Tensor:
    """A linear layer with GELU, its rows normalised."""
    y = jg.nn.functional.gelu(x @ weight + bias)
    return jg.nn.functional.layer_norm(y, (y.shape[-1],))


def main(folder: str = "dumps") -> None:
    """Compile `layer` with dumps, then show some of them."""
    jg.manual_seed(0)
    compiled = jg.compile(layer, dump=folder)
    compiled(jg.randn(64, 32), jg.randn(32, 16), jg.zeros(16))

    newest = max(Path(folder).iterdir())
    print(f"{newest}:", *sorted(path.name for path in newest.iterdir()), sep="\n    ")
    for stage in ("traced", "groups", "kernels"):
        (path,) = newest.glob(f"*-{stage}.txt")
        print(f"\n--- {path.name}\n{path.read_text()}")

    graph = compiled.explain().specialisations[0].graph
    print(f"--- the graph, drawn\n{draw(graph)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
