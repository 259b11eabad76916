"""Compile a function, ask what was compiled, and call it with a new shape without compiling anything.

python examples/compile_function.py
"""

import jitgrad as jg


@jg.compile
def attention(query: jg.Tensor, key: jg.Tensor, value: jg.Tensor) -> jg.Tensor:
    """Scaled dot-product attention: two matrix products, and one kernel for all that is between them."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    return jg.softmax(scores, dim=-1) @ value


def inputs(length: int) -> list[jg.Tensor]:
    """Query, key and value of 4 heads."""
    return [jg.randn(4, length, 16) for _ in range(3)]


def main() -> None:
    """Compile, call again, call with another length."""
    jg.manual_seed(0)
    first = inputs(length=32)
    compiled = attention(*first)
    eager = attention.__wrapped__(*first)
    print("largest difference to eager:", (compiled - eager).abs().max().item())

    with jg.assert_no_compile():  # raises if a kernel is compiled inside
        attention(*inputs(length=32))
        attention(*inputs(length=100))  # a new shape: traced again, with the kernels that are there
    print(attention.explain())


if __name__ == "__main__":
    main()
