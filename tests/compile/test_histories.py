"""What results of compiled functions leave on the tape: gradients at each of them, freed and written as eagerly."""

from programs_compared import agree

import jitgrad as jg


def ramp(requires_grad=True):
    return jg.tensor([-2.0, -0.5, 1.0, 3.0], requires_grad=requires_grad)


def refused(action):
    try:
        action()
    except RuntimeError:
        return True
    return False


def test_results_that_come_from_one_another():
    def program(compile):
        def f(x):
            y = x * 2
            z = y**3
            return y, z, z.sum(), (x * y).sum()

        f = compile(f)
        for _ in range(3):
            x = ramp()
            y, z, total, other = f(x)
            yield jg.autograd.grad(total, (y, z, x), retain_graph=True)
            yield jg.autograd.grad(other + total, (y, x), retain_graph=True)
            y.retain_grad()
            (total + z.sum() + y.sum()).backward()
            yield y.grad, x.grad

    agree(program)


def test_second_gradients_at_results():
    def program(compile):
        f = compile(lambda x: (x.sin(), (x.sin() ** 3).sum(), x.sin().exp()))
        for _ in range(3):
            x = ramp()
            y, total, e = f(x)
            (g,) = jg.autograd.grad(total + (e * y).sum(), x, create_graph=True)
            yield g, jg.autograd.grad((g * y).sum(), x)

    agree(program)


def test_results_that_share_nothing_are_freed_apart():
    def program(compile):
        f = compile(lambda x, y: (x * y, (x.exp() * y).sum(), x + y, y.detach() * 2))
        for _ in range(3):
            x, y = ramp(), ramp()
            product, total, added, constant = f(x, y)
            yield constant
            product.sum().backward()
            yield x.grad, y.grad
            total.backward()
            yield x.grad, y.grad
            yield refused(total.backward), refused(added.sum().backward)

    agree(program)


def test_a_result_that_the_gradient_uses_and_that_is_written_after():
    def program(compile):
        f = compile(lambda x: x.exp())
        for _ in range(3):
            x = ramp()
            y = f(x)
            y.mul_(2)
            yield refused(y.sum().backward)

    agree(program)


def test_an_argument_that_the_gradient_uses_and_that_the_call_writes():
    def program(compile):
        def f(w, x):
            total = (w * x).sum()
            x.add_(1)
            return total

        f = compile(f)
        for _ in range(3):
            total = f(ramp(), ramp(False))
            yield refused(total.backward)

    agree(program)


def test_tensors_made_inside_that_require_gradients():
    def program(compile):
        def f(x):
            y = (x * 2).detach().requires_grad_()
            return y, (y * 3).sum()

        def g(x):
            return x.detach().requires_grad_()

        f, g = compile(f), compile(g)
        for _ in range(3):
            y, total = f(ramp())
            total.backward()
            leaf = g(ramp())
            (leaf * leaf).sum().backward()
            yield y, y.grad, leaf, leaf.grad

    agree(program)


def test_grad_mode_switched_on_inside():
    def program(compile):
        def f(x):
            with jg.no_grad():
                y = x * 2
            with jg.enable_grad():
                return y, x * 3

        f = compile(f)
        for _ in range(3):
            x = ramp()
            yield f(x)
            with jg.no_grad():
                y, z = f(x)
            z.sum().backward()
            yield y, z, x.grad

    agree(program)


def test_detached_results_leave_the_tensors_of_the_call_behind():
    """A loss whose history starts at a tensor that the call made is returned detached: nothing runs eagerly."""

    def program(compile):
        def f(x):
            leaf = x.clone().requires_grad_()
            loss = (leaf * leaf).sum()
            (g,) = jg.autograd.grad(loss, leaf)
            return loss.detach(), loss.detach().view(1), g

        f = compile(f)
        for n in range(1, 4):
            a, b, g = f(jg.arange(4.0) * n)
            a += 1
            yield a, b, g, a.requires_grad

    agree(program)
    f = jg.compile(lambda x: (x.clone().requires_grad_() * 2).detach(), fullgraph=True)
    assert [f(jg.ones(1) * n).item() for n in range(3)] == [0, 2, 4]  # nothing is refused


def test_a_detached_result_of_a_tensor_that_is_kept():
    def program(compile):
        def f(x):
            y = x * 3
            return y.detach(), y

        f = compile(f)
        for _ in range(3):
            x = ramp()
            a, y = f(x)
            yield a.requires_grad, jg.autograd.grad((y * a).sum(), x)

    agree(program)
