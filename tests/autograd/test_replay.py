"""The short way backward, of structures seen before."""

import jitgrad as jg


def test_structures_that_differ_in_the_order_of_operands_alone_are_two():
    """Both have the same ops in the same order of recording; only the quotient takes them the other way round."""

    def step(x, flip):
        first, last = x[0], x[-1]
        return last / first if flip else first / last

    for flip in (False, False, True, True, False):
        x = jg.tensor([2.0, 1.0, 4.0], requires_grad=True)
        step(x, flip).backward()
        assert x.grad.tolist() == ([-1.0, 0.0, 0.5] if flip else [0.25, 0.0, -0.125])
