"""What a specialisation takes for granted of tensors, gradients and hooks is looked at again at each call."""

import numpy as np
from programs_compared import agree

import jitgrad as jg


def ramp(requires_grad=False):
    return jg.tensor([-2.0, -0.5, 1.0, 3.0], requires_grad=requires_grad)


def test_gradients_of_arguments_that_are_there_or_not():
    def program(compile):
        def f(x):
            (x * x).sum().backward()
            return x.grad

        f = compile(f)
        x = ramp(True)
        for k in range(8):
            if k == 4:
                x.grad = None
            yield f(x), x.grad
        for k in range(4):
            x = ramp(True)
            x.grad = ramp() if k % 2 else None
            yield f(x), x.grad

    agree(program)


def test_gradients_that_are_tensors_reached_otherwise():
    def program(compile):
        w, kept = ramp(True), jg.zeros(4)

        def f(x):
            (w * x).sum().backward()
            return kept * 1

        f = compile(f)
        for grad in (kept, jg.zeros(4), kept, kept[:], jg.zeros(8)[::2]):
            w.grad = grad
            for _ in range(2):
                yield f(ramp()), w.grad, kept

    agree(program)


def test_hooks_put_on_and_taken_off():
    def program(compile):
        w, log, scale = ramp(True), [], [10.0]
        f = compile(lambda x: (x * w).sum().backward())
        g = compile(lambda x: (x * x).sum().backward())

        def calls():
            for _ in range(3):
                w.grad = None
                f(ramp())
                yield w.grad, len(log)

        yield from calls()
        handle = w.register_hook(lambda grad: grad * scale[0])
        yield from calls()
        scale[0] = 5.0
        yield from calls()
        handle.remove()
        yield from calls()
        w.register_hook(lambda grad: log.append(1))
        yield from calls()
        for k in range(6):
            x = ramp(True)
            if k % 2:
                x.register_hook(lambda grad: grad * 10)
            g(x)
            yield x.grad

    agree(program)


def test_tensors_that_become_others():
    def program(compile):
        w, other = ramp(), ramp() * 3
        view = other[1:]
        f = compile(lambda x: (x.sum() * w, view * 2, other + 1))

        def write(x):
            w.mul_(2)
            return other * x

        write = compile(write)
        for change in (
            lambda: w.unsqueeze_(0),
            lambda: w.unsqueeze_(0),
            lambda: setattr(w, "data", ramp()),
            lambda: setattr(w, "data", jg.ones(8)[::2]),
            lambda: view.requires_grad_(),
            lambda: setattr(w, "data", other.data),
            lambda: setattr(other, "data", ramp()),
        ):
            for _ in range(2):
                yield f(ramp()), write(ramp()), w
            change()
        yield f(ramp()), write(ramp()), w, other

    agree(program)


def test_an_argument_is_what_a_captured_view_is_of_and_then_another_tensor_comes():
    def program(compile):
        base = jg.zeros(6)
        view = base[1:5]

        def f(x):
            view.add_(1)
            return x * 2

        f = compile(f)
        for x in (base, jg.ones(6), base, jg.ones(6)):
            yield f(x), base, x

    agree(program)


def test_arguments_that_are_captured_or_share_memory():
    def program(compile):
        base = jg.zeros(6)
        view, plain = base[1:5], jg.ones(4)

        def f(x):
            view.add_(1)
            return x * 2

        def g(x):
            x.add_(1)
            return view * 2

        def h(x):
            return x * plain

        f, g, h = compile(f), compile(g), compile(h)
        for _ in range(2):
            for x in (jg.ones(6), base, base.detach(), base[:], base[1:], jg.from_numpy(base.numpy())):
                yield f(x), g(x), base
            yield h(plain), h(jg.zeros(4)), h(plain)

    agree(program)


def test_large_arguments_that_share_memory():
    def program(compile):
        double = compile(lambda x: x * 2)

        def f(x, y):
            x.add_(1)
            return y * 2

        f = compile(f)
        for _ in range(2):
            x = double(jg.zeros(40_000))
            yield f(x, double(jg.ones(40_000)))
            yield f(x, x.detach()), f(x[:-1], x[1:]), f(x.view(2, -1)[0], x[:20_000])

    agree(program)


def test_requires_grad_and_modes_changed_by_the_call():
    def program(compile):
        w = ramp()

        def f(x):
            x.requires_grad_()
            return (x * 2).sum()

        def g(x):
            w.requires_grad_()
            return (x * w).sum()

        def h(x):
            jg.set_grad_enabled(False)
            return x * 2

        f, g, h = compile(f), compile(g), compile(h)
        for _ in range(3):
            x = ramp()
            f(x).backward()
            w.requires_grad_(False)
            yield x.grad, g(ramp())
            yield h(ramp(True)), jg.is_grad_enabled()
            jg.set_grad_enabled(True)

    agree(program)


def test_arguments_changed_by_the_call():
    def program(compile):
        def append(x, items):
            items.append(len(items))
            return x * len(items)

        def replace(batch):
            batch["x"] = batch["x"] * 2
            return batch

        append, replace, same = compile(append), compile(replace), compile(lambda items: items)
        for _ in range(3):
            items, batch = [1], {"x": ramp()}
            yield append(ramp(), items), items
            yield replace(batch) is batch, batch["x"]
            yield same(items) is items

    agree(program)


def test_new_objects_among_results():
    def program(compile):
        def f(x):
            return x * 2, set(), bytearray(b"a"), [0], x.shape

        def g(x):
            yield x * 2
            yield x * 3

        f, g = compile(f), compile(g)
        for k in range(4):
            _, numbers, text, items, shape = f(ramp())
            numbers.add(k)
            items.append(k)
            text += b"b"
            yield numbers, text, items, shape
            yield list(g(ramp()))

    agree(program)


def test_layouts_of_arguments():
    def program(compile):
        def write(x):
            x.reshape(-1)[0] = 9.0
            return x * 2

        write = compile(write)
        read_only = np.zeros((2, 3), "f4")
        read_only.flags.writeable = False
        for _ in range(2):
            strided, columns = jg.zeros(12)[::2].view(2, 3), jg.zeros(2, 4)[:, :3]
            yield write(jg.zeros(2, 3)), write(columns), columns, write(strided), strided
            for odd in (jg.from_numpy(read_only), jg.zeros(1, 3).expand(2, 3)):
                try:
                    yield write(odd)
                except RuntimeError:
                    yield "refused"
            yield odd, read_only

    agree(program)
