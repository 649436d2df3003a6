"""Autograd as a user meets it: backward, grad, hooks, modes, Function; and the gradient of every differentiable op, twice."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import oneflow_mini as flow
import oneflow_mini.nn.functional as F
from oneflow_mini.autograd import Function, GradcheckError, grad, gradcheck, gradgradcheck, once_differentiable


def scalar(value, **options):
    return flow.tensor(value, dtype=flow.float64, requires_grad=True, **options)


# ----- backward and grad ------------------------------------------------------------------------------------------------------------


def test_backward_accumulates_and_needs_a_scalar():
    x = flow.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [4.0, 8.0])
    with pytest.raises(RuntimeError, match="scalar"):
        (x * x).backward()
    x.grad = None
    (x * x).backward(flow.tensor([1.0, 10.0]))
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 40.0])
    with pytest.raises(RuntimeError):
        flow.ones(1).backward()


def test_retain_graph():
    x = scalar(3.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 12.0
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_create_graph_and_higher_orders():
    x = scalar(2.0)
    (g1,) = grad(x**4, x, create_graph=True)
    (g2,) = grad(g1, x, create_graph=True)
    (g3,) = grad(g2, x)
    np.testing.assert_allclose([g1.item(), g2.item(), g3.item()], [32.0, 48.0, 48.0], rtol=1e-12)
    assert x.grad is None and g1.requires_grad and not g3.requires_grad


def test_grad_arguments():
    x, y, z = scalar(2.0), scalar(3.0), scalar(4.0)
    gx, gy = grad([x * y, x * x], [x, y], grad_outputs=[flow.tensor(1.0, dtype=flow.float64), None])
    assert (gx.item(), gy.item()) == (7.0, 2.0)
    with pytest.raises(RuntimeError, match=r"not have been used|unused|allow_unused"):
        grad(x * y, [x, z])
    assert grad(x * y, [x, z], allow_unused=True)[1] is None
    assert grad(x * y, [x, z], materialize_grads=True)[1].item() == 0.0
    with pytest.raises(TypeError, match=r"inputs\[0\]"):
        grad(x * y, [3])
    with pytest.raises(RuntimeError, match="one for each output"):
        grad([x * y], [x], grad_outputs=[None, None])
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        grad(x * y, x, grad_outputs=flow.ones(3, dtype=flow.float64))
    mid = x * y
    assert grad(mid * mid, mid)[0].item() == 12.0


def test_backward_to_chosen_inputs():
    x, y = scalar(2.0), scalar(3.0)
    flow.autograd.backward(x * y, inputs=[x])
    assert x.grad.item() == 3.0 and y.grad is None


def test_in_place_and_versions():
    x = flow.ones(3, requires_grad=True)
    y = x * 2
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    w = x * 2
    before = w._version
    w.mul_(3)
    assert w._version == before + 1
    w.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 6.0)
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1)
    with flow.no_grad():
        x.add_(1)
    v = x * 1
    v[0].mul_(5)
    x.grad = None
    v.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [5.0, 1.0, 1.0])


def test_detach_and_leaves():
    x = scalar(2.0)
    y = x * x
    assert x.is_leaf and not y.is_leaf and y.grad_fn is not None and "Mul" in y.grad_fn.name()
    assert y.detach().is_leaf and not y.detach().requires_grad
    (y.detach() * x).backward()
    assert x.grad.item() == 4.0
    with pytest.raises(RuntimeError):
        y.requires_grad = False
    with pytest.raises(RuntimeError):
        flow.tensor([1, 2]).requires_grad_()


# ----- modes ----------------------------------------------------------------------------------------------------------------------


def test_modes():
    x = scalar(1.0)
    with flow.no_grad():
        assert not (x * 2).requires_grad
        with flow.enable_grad():
            assert (x * 2).requires_grad
        assert not flow.is_grad_enabled()
    with flow.inference_mode():
        assert not flow.is_grad_enabled()
    with flow.inference_mode(False):
        assert flow.is_grad_enabled()
    with flow.set_grad_enabled(False):
        assert not flow.is_grad_enabled()
    assert flow.is_grad_enabled()
    flow.set_grad_enabled(False)
    assert not flow.is_grad_enabled()
    flow.set_grad_enabled(True)
    with pytest.raises(KeyError), flow.no_grad():
        raise KeyError
    assert flow.is_grad_enabled()


@pytest.mark.parametrize(
    "decorate", [flow.no_grad(), flow.no_grad, flow.inference_mode(), flow.inference_mode, flow.set_grad_enabled(False)]
)
def test_modes_decorate(decorate):
    @decorate
    def f():
        return flow.is_grad_enabled()

    assert flow.is_grad_enabled() and not f() and f.__name__ == "f" and flow.is_grad_enabled()


def test_modes_decorate_generators():
    @flow.no_grad()
    def f():
        got = yield flow.is_grad_enabled()
        yield got, flow.is_grad_enabled()

    g = f()
    assert next(g) is False and flow.is_grad_enabled()
    assert g.send(5) == (5, False) and flow.is_grad_enabled()


# ----- hooks ----------------------------------------------------------------------------------------------------------------------


def test_tensor_hooks():
    x, seen = scalar(2.0), []
    handle = x.register_hook(lambda g: seen.append(g.item()) or g * 10)
    (x * 3).backward()
    assert seen == [3.0] and x.grad.item() == 30.0
    handle.remove()
    (x * 3).backward()
    assert x.grad.item() == 33.0
    y = x * x
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    y.backward()
    assert y.grad.item() == 2.0 and x.grad.item() == 33.0 + 8.0
    with pytest.raises(RuntimeError):
        flow.ones(1).register_hook(print)


def test_an_exception_in_a_hook_reaches_the_caller():
    x = scalar(2.0)
    x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (x * x).backward()
    assert flow.is_grad_enabled()


# ----- Function -------------------------------------------------------------------------------------------------------------------


class Cube(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * x * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x * ctx.factor, None


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


def test_function(f64):
    x = f64(3)
    y = Cube.apply(x, 2.0)
    assert y.grad_fn.name() == "CubeBackward"
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * x.detach().numpy() ** 2, rtol=1e-12)
    assert gradcheck(lambda t: Cube.apply(t, 2.0), x) and gradgradcheck(lambda t: Cube.apply(t, 2.0), x)
    assert gradcheck(Exp.apply, x) and gradgradcheck(Exp.apply, x)
    assert not Cube.apply(x.detach(), 1.0).requires_grad
    with flow.no_grad():
        assert not Cube.apply(x, 1.0).requires_grad


def test_function_saved_tensors_are_checked_and_freed(f64):
    x = f64(3)
    y = Exp.apply(x)
    with flow.no_grad():
        y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    z = Exp.apply(x)
    s = z.sum()
    s.backward()
    with pytest.raises(RuntimeError, match="second time"):
        s.backward()


def test_function_doesn_t_leak_its_output(f64):
    class Owner(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(x, y)
            ctx.token = token()
            return y

        @staticmethod
        def backward(ctx, g):
            return g

    class Token:
        pass

    refs = []

    def token():
        t = Token()
        refs.append(weakref.ref(t))
        return t

    y = Owner.apply(f64(2))
    assert refs[0]() is not None
    del y
    gc.collect()
    assert refs[0]() is None


def test_function_several_outputs(f64):
    class Split(Function):
        @staticmethod
        def forward(ctx, x):
            low = (x < 0).to(flow.int64)
            ctx.mark_non_differentiable(low)
            return x * 2, low, x * 3

        @staticmethod
        def backward(ctx, a, _, c):
            assert _.dtype == flow.int64
            return a * 2 + c * 3

    x = f64(3)
    a, low, c = Split.apply(x)
    assert a.requires_grad and c.requires_grad and not low.requires_grad
    a.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2.0)

    class Raw(Split):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, c):
            assert a is None
            return c * 3

    x.grad = None
    Raw.apply(x)[1].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 3.0)


def test_function_in_place_and_identity(f64):
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 7

    x = f64(3)
    y = x * 1
    z = Double.apply(y)
    assert z is y
    z.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2.0)
    s = Same.apply(x)
    assert s is not x and x.is_leaf
    x.grad = None
    s.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 7.0)
    with pytest.raises(RuntimeError, match="leaf"):
        Double.apply(x)


def test_function_setup_context(f64):
    class Square(Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    assert gradcheck(Square.apply, f64(3)) and gradgradcheck(Square.apply, f64(3))


def test_function_mistakes(f64):
    x = f64(2)

    def make(result):
        class Wrong(Function):
            @staticmethod
            def forward(ctx, x, n):
                return x * n

            @staticmethod
            def backward(ctx, g):
                return result(g)

        return Wrong.apply(x, 2).sum()

    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        make(lambda g: g).backward()
    with pytest.raises(RuntimeError, match="different from None at position 2"):
        make(lambda g: (g, g)).backward()
    with pytest.raises((RuntimeError, ValueError), match="shape"):
        make(lambda g: (flow.ones(5, dtype=flow.float64), None)).backward()
    with pytest.raises(TypeError, match="str"):
        make(lambda g: ("no", None)).backward()
    with pytest.raises(KeyError):
        make(lambda g: {}["missing"]).backward()
    make(lambda g: (g, None, None)).backward()
    with pytest.raises(RuntimeError, match="isn't instantiated"):
        Cube()
    with pytest.raises(TypeError, match="save_for_backward"):

        class Bad(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(3)

        Bad.apply(x)


def test_once_differentiable(f64):
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    x = f64(2)
    (g,) = grad(Once.apply(x).sum(), x)
    np.testing.assert_allclose(g.numpy(), 2 * x.detach().numpy())
    out = flow.ones(2, dtype=flow.float64, requires_grad=True)
    (g,) = grad(Once.apply(x), x, out, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_gradcheck_finds_a_wrong_gradient(f64):
    class Wrong(Exp):
        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0] * 1.01

    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, f64(3))
    assert gradcheck(Wrong.apply, f64(3), raise_exception=False) is False

    class WrongSecond(Exp):
        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].detach()

    assert gradcheck(WrongSecond.apply, f64(3))
    with pytest.raises(GradcheckError):
        gradgradcheck(WrongSecond.apply, f64(3))
    with pytest.raises(ValueError, match="requires_grad"):
        gradcheck(flow.exp, flow.ones(2, dtype=flow.float64))


# ----- every differentiable op ------------------------------------------------------------------------------------------------------

ANY, POSITIVE, UNIT = (-1.0, 1.0), (0.5, 2.0), (0.1, 0.9)
AWAY = (0.2, 1.0)  # clear of the kink at 0

UNARY = {
    "neg": ANY, "abs": AWAY, "square": ANY, "reciprocal": POSITIVE, "sqrt": POSITIVE, "rsqrt": POSITIVE, "relu": AWAY, "exp": ANY,
    "exp2": ANY, "expm1": ANY, "log": POSITIVE, "log2": POSITIVE, "log10": POSITIVE, "log1p": POSITIVE,
    "sin": ANY, "cos": ANY, "tan": ANY, "asin": (-0.8, 0.8), "acos": (-0.8, 0.8), "atan": ANY, "sinh": ANY, "cosh": ANY, "erfc": ANY, "erfinv": (-0.8, 0.8),
    "tanh": ANY, "erf": ANY, "sigmoid": ANY, "silu": ANY, "gelu": ANY, "softplus": ANY, "sign": AWAY, "floor": UNIT, "ceil": UNIT,
    "trunc": UNIT, "round": (0.1, 0.4),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary_gradients(f64, name):
    low, high = UNARY[name]
    op, x = getattr(flow, name), f64(2, 3, low=low, high=high)
    assert gradcheck(op, x) and gradgradcheck(op, x)
    if (low, high) == AWAY:
        x = f64(4, low=-high, high=-low)
        assert gradcheck(op, x) and gradgradcheck(op, x)


BINARY = {
    "add": (ANY, ANY), "sub": (ANY, ANY), "mul": (ANY, ANY), "div": (ANY, POSITIVE), "pow": (POSITIVE, ANY), "maximum": (ANY, ANY),
    "minimum": (ANY, ANY), "remainder": ((0.1, 0.9), (1.5, 1.9)), "fmod": ((2.1, 2.9), (1.5, 1.9)), "atan2": (POSITIVE, ANY),
}  # fmt: skip


@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,))])
@pytest.mark.parametrize("name", BINARY)
def test_binary_gradients(f64, name, shapes):
    (la, ha), (lb, hb) = BINARY[name]
    a, b = f64(*shapes[0], low=la, high=ha), f64(*shapes[1], low=lb, high=hb)
    op = getattr(flow, name)
    assert gradcheck(op, (a, b)) and gradgradcheck(op, (a, b))


CONDITION = [[True, False, True], [False, False, True]]
OTHERS = {
    "scalar operands": lambda x: (2.0 - x) * 3 / (x + 5.0) + x**3 + 2.0**x,
    "alpha": lambda x: flow.add(x, x * x, alpha=3) - flow.sub(x, x.exp(), alpha=2),
    "where": lambda x: flow.where(flow.tensor(CONDITION), x * x, x * 3),
    "masked_fill": lambda x: x.masked_fill(flow.tensor(CONDITION), 7.0) * x,
    "clamp": lambda x: flow.clamp(x * x, 0.05, 0.6),
    "gelu tanh": lambda x: flow.gelu(x, approximate="tanh"),
    "cast": lambda x: x.to(flow.float64).double() * x,
    "clone contiguous": lambda x: x.t().contiguous().clone() * 2,
    "sum": lambda x: (x * x).sum(),
    "sum dim": lambda x: (x * x).sum(0) + x.sum((0, 1)),
    "sum keepdim": lambda x: (x * x).sum(-1, keepdim=True) * x,
    "mean": lambda x: (x * x).mean(1) + x.mean(),
    "prod": lambda x: x.prod(1),
    "prod all": lambda x: x.prod(),
    "amax": lambda x: x.amax(1) * 2,
    "amin": lambda x: x.amin((0, 1)),
    "max": lambda x: x.max(),
    "max dim": lambda x: x.max(1)[0] * x.min(1)[0],
    "var std": lambda x: x.var(1) + x.std(0, unbiased=False).sum(),
    "norm": lambda x: x.norm() + x.norm(1, 0).sum() + x.norm(3.0),
    "softmax": lambda x: flow.softmax(x, 1),
    "softmax dim 0": lambda x: flow.softmax(x, 0),
    "log_softmax": lambda x: flow.log_softmax(x, -1),
    "nll_loss": lambda x: flow._C.nll_loss(x, flow.tensor([2, 0]), -100),
    "nll_loss ignored": lambda x: F.nll_loss(x, flow.tensor([2, -100])),
    "cross_entropy": lambda x: F.cross_entropy(x, flow.tensor([2, 0])),
    "cross_entropy weights": lambda x: F.cross_entropy(x, flow.tensor([2, 0]), flow.tensor([0.5, 1.0, 2.0]).double(), label_smoothing=0.1),
    "bce": lambda x: F.binary_cross_entropy_with_logits(x, flow.tensor(CONDITION).double()),
    "layer_norm": lambda x: F.layer_norm(x, 3),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "elu mish": lambda x: F.elu(x) + F.mish(x),
    "reshape": lambda x: x.reshape(3, 2) * x.view(3, 2),
    "permute": lambda x: x.permute(1, 0) * x.transpose(0, 1) * x.t(),
    "expand": lambda x: x.unsqueeze(0).expand(2, 2, 3) * 2,
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1) * x.flatten().reshape(2, 3),
    "cat": lambda x: flow.cat([x, x * x], 1),
    "stack": lambda x: flow.stack([x, x.exp()], 1),
    "split": lambda x: x.split(2, 1)[0] * x.chunk(2, 1)[0] + x.split([1, 2], 1)[0],
    "index": lambda x: x[0] * x[1, 1:].sum() + x[:, ::2].sum() + x[..., -1].sum() + x[None].sum(),
    "assign": lambda x: _assign(x),
    "in place": lambda x: (x * 1).mul_(x).add_(2.0).relu_() * x,
    "flip by step": lambda x: x[:, 0::2] * x[:, 1:2],
    "linear": lambda x: F.linear(x, x * 2, x[:, 0]),
    "pad": lambda x: F.pad(x, (1, 0, 0, 2), value=1.0) * 2,
}


def _assign(x):
    y = x * 1
    y[0] = x[1] * x[1]
    y[:, 1] = 3.0
    return y * x


@pytest.mark.parametrize("name", OTHERS)
def test_other_gradients(f64, name):
    x = f64(2, 3)
    assert gradcheck(OTHERS[name], x) and gradgradcheck(OTHERS[name], x)


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3, 2)), ((2, 2, 3), (3, 2)), ((2, 1, 2, 3), (2, 3, 2)), ((3,), (3, 2)), ((2, 3), (3,)), ((3,), (3,))]
)
def test_matmul_gradients(f64, shapes):
    a, b = f64(*shapes[0]), f64(*shapes[1])
    assert gradcheck(flow.matmul, (a, b)) and gradgradcheck(flow.matmul, (a, b))


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": (2, 0)}, {"groups": 2}])
def test_conv2d_gradients(f64, options):
    groups = options.get("groups", 1)
    x, w, b = f64(2, 2, 4, 5), f64(2, 2 // groups, 2, 3), f64(2)

    def op(*args):
        return F.conv2d(*args, **options)

    assert gradcheck(op, (x, w, b)) and gradgradcheck(op, (x, w, b))


@pytest.mark.parametrize(
    "options", [{"kernel_size": 2}, {"kernel_size": (3, 2), "stride": 1, "padding": 1}, {"kernel_size": 2, "dilation": 2, "stride": 1}]
)
def test_pool_gradients(rng, options):
    values = rng.permutation(2 * 5 * 4).astype("float64").reshape(1, 2, 5, 4) / 8  # far apart: eps doesn't change the order
    x = flow.tensor(values, requires_grad=True)

    def op(t):
        return F.max_pool2d(t, **options)

    assert gradcheck(op, x) and gradgradcheck(op, x)
    assert gradcheck(lambda t: F.avg_pool2d(t, 2) + F.adaptive_avg_pool2d(t[:, :, :4], 2), x)


def test_dropout_gradient_uses_the_same_mask():
    x = flow.ones(100, dtype=flow.float64, requires_grad=True)
    y = F.dropout(x, 0.5)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
