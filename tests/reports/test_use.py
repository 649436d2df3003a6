"""The kinds "random", "interop", "runtime" and "train"."""

from __future__ import annotations

import copy
import gc
import operator
import threading

import numpy as np
import pytest
from kit import ALL, FLOATS, Producer, array, assert_close, assert_equal, refuses, same_bits, tensor, wide
from views import VIEWS, WRITABLE, integers

import oneflow_mini as flow
from oneflow_mini.nn import functional as F

# ---- random numbers -----------------------------------------------------------------------------------------------------------------------

DRAWS = {
    "rand": lambda dev, d: flow.rand(3, 50, device=dev, dtype=d),
    "randn": lambda dev, d: flow.randn(150, device=dev, dtype=d),
    "uniform_": lambda dev, d: flow.empty(150, device=dev, dtype=d).uniform_(-3, 5),
    "normal_": lambda dev, d: flow.empty(150, device=dev, dtype=d).normal_(2, 3),
    "exponential_": lambda dev, d: flow.empty(150, device=dev, dtype=d).exponential_(),
    "bernoulli": lambda dev, d: flow.bernoulli(flow.full((150,), 0.5, device=dev, dtype=d)),
    "dropout": lambda dev, d: F.dropout(flow.ones(150, device=dev, dtype=d), 0.5),
    "dropout2d": lambda dev, d: F.dropout2d(flow.ones(3, 50, 2, 2, device=dev, dtype=d), 0.5),
    "randint": lambda dev, d: flow.randint(0, 100, (150,), device=dev).to(d),
    "randperm": lambda dev, d: flow.randperm(150, device=dev).to(d),
    "random_": lambda dev, d: flow.empty(150, device=dev, dtype=d).random_(0, 100),
    "kaiming": lambda dev, d: flow.nn.init.kaiming_normal_(flow.empty(15, 10, device=dev, dtype=d)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", DRAWS)
def test_seeds(dev, name, dtype):
    draw = lambda: DRAWS[name](dev, getattr(flow, dtype))
    flow.manual_seed(999)
    a, b = draw(), draw()
    flow.manual_seed(999)
    c = draw()
    flow.manual_seed(1000)
    d = draw()
    assert same_bits(a, c) and not same_bits(a, b) and not same_bits(a, d)
    flow.manual_seed(999)
    flow.randn(1, device=dev)
    assert not same_bits(draw(), a), "another draw before it moves the generator"


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout_at_its_edges(dev, dtype):
    x = tensor(dev, [1.5, -2, 0, 3e4] * 50, dtype, grad=True)
    for module in (flow.nn.Dropout, flow.nn.Dropout1d):
        shaped = x.reshape(20, 10) if module is flow.nn.Dropout1d else x
        assert_equal(module(0.0)(shaped), wide(shaped))
        assert_equal(module(0.7).eval()(shaped), wide(shaped))
        assert_equal(module(1.0)(shaped), np.zeros(tuple(shaped.shape)))
    F.dropout(x, 1.0).sum().backward()
    assert_equal(x.grad, np.zeros(200))
    for p in (1.5, -0.1, float("nan")):
        refuses(f"p = {p}", lambda p=p: F.dropout(x, p))
    for p in (0.1, 0.25, 0.5, 0.9):
        z = wide(F.dropout(flow.ones(20000, dtype=getattr(flow, dtype), device=dev), p))
        kept = np.unique(z[z != 0])
        assert kept.size == 1 and abs(kept[0] * (1 - p) - 1) < 0.01
        assert abs((z == 0).mean() - p) < 5 * np.sqrt(p * (1 - p) / 20000)
    whole = wide(F.dropout2d(flow.ones(4, 50, 3, 3, dtype=getattr(flow, dtype), device=dev), 0.5)).reshape(200, 9)
    assert (whole == whole[:, :1]).all() and 0 < (whole[:, 0] == 0).sum() < 200


# ---- DLPack and numpy ---------------------------------------------------------------------------------------------------------------------

CODES = {"float32": (2, 32), "float64": (2, 64), "int32": (0, 32), "int64": (0, 64), "uint8": (1, 8), "int8": (0, 8), "float16": (2, 16)}


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("deleter", [True, False])
def test_dlpack_producers(dev, dtype, deleter):
    base = np.arange(24).astype(dtype)
    code, bits = CODES[dtype]
    size = base.itemsize
    for shape, strides, start in (((24,), None, 0), ((4, 6), None, 0), ((2, 3, 4), None, 0), ((6, 4), (1, 6), 0), ((3, 5), (6, 1), 6),
                                  ((2, 2), (12, 2), 1), ((), None, 3), ((0, 3), None, 0), ((5,), (0,), 2)):  # fmt: skip
        producer = Producer(base, shape, strides, start * size, deleter, code, bits)
        t = flow.from_dlpack(producer)
        want = np.lib.stride_tricks.as_strided(base[start:], shape, [s * size for s in strides] if strides else None)
        if strides is None:
            want = base[start : start + int(np.prod(shape))].reshape(shape)
        assert_equal(t, want, f"{shape} {strides}")
        assert_equal(t.to(dev) * 2, want * 2)
        del t
        gc.collect()
        assert producer.deleted == (1 if deleter else 0)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [d for d in ALL if d != "bfloat16"])
def test_numpy_views(dev, view, dtype):
    a = integers(dtype).astype("bool" if dtype == "bool" else dtype)
    v = VIEWS[view](a)
    t = flow.tensor(v, device=dev)
    assert_equal(t, v)
    assert t.is_contiguous() and t.tolist() == v.tolist()
    if v.flags.writeable:
        shared = flow.from_numpy(v)
        assert_equal(shared, v, "from_numpy")
        assert_equal(shared.to(dev) if dtype != "bool" else shared, v)
        z = flow.zeros(*v.shape, dtype=getattr(flow, dtype), device=dev)
        z.copy_(shared)
        assert_equal(z, v, "copy_")
        if v.size:
            v[(0,) * v.ndim] = 1
            assert shared[(0,) * v.ndim].item() == 1
            shared[(0,) * v.ndim] = 0
            assert v[(0,) * v.ndim] == 0
    back = flow.tensor(a, device=dev)
    assert_equal(array(VIEWS[view](back)), VIEWS[view](a), "numpy of a view")
    assert_equal(np.asarray(VIEWS[view](back)), VIEWS[view](a), "__array__")
    if view in WRITABLE:
        assert_equal(np.from_dlpack(VIEWS[view](back)), VIEWS[view](a), "__dlpack__") if dtype != "bool" else None


def test_arrays_beside_tensors(dev):
    """numpy's arrays count as tensors behind one and are refused before one, as in PyTorch; nothing turns into an array silently."""
    x, a = tensor(dev, [[1.0, 2.0], [3.0, 4.0]]), np.array([[10.0, 20.0], [30.0, 40.0]], np.float32)
    for op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.matmul):
        out = op(x, a)
        assert isinstance(out, flow.Tensor) and out.dtype == flow.float32
        assert_close(out, op(array(x).astype(np.float64), a), 1e-6)
        with pytest.raises(TypeError):
            op(a, x)
    assert isinstance(x == a, flow.Tensor) and not array(x == a).any() and array(x < a).all() and array(a > x).all()
    x += a
    assert_equal(x, [[11, 22], [33, 44]])
    assert (x * a.astype(np.float64)).dtype == flow.float64


# ---- bad input, copies, threads -------------------------------------------------------------------------------------------------------------


def test_bad_input_leaves_all_well(dev):
    x, i = flow.zeros(2, 3, device=dev), flow.tensor([0, 9], device=dev)
    huge = 2**62
    bad = [
        lambda: flow.ones(-1, device=dev), lambda: flow.full((2, -2), 1.0, device=dev), lambda: flow.empty(huge, huge, device=dev),
        lambda: flow.zeros(2**60, device=dev), lambda: flow.randint(0, 5, (-1,), device=dev), lambda: flow.arange(0, 10, -1, device=dev),
        lambda: flow.randperm(-1, device=dev), lambda: flow.eye(-1, device=dev), lambda: x.expand(-2, 3), lambda: x.expand(3, 3),
        lambda: x.mean(dim=2), lambda: x.argmax(dim=-3), lambda: x.transpose(0, 2), lambda: x.permute(0), lambda: x.permute(0, 5),
        lambda: x.squeeze(7), lambda: x.unsqueeze(9), lambda: x.view(-1, -1), lambda: x.view(0, -1), lambda: x.as_strided((9,), (9,)),
        lambda: x.as_strided((2,), (-1,)), lambda: x.split(0), lambda: x.chunk(0), lambda: x.narrow(0, 1, 5), lambda: x[2], lambda: x[0, 0, 0],
        lambda: x[i], lambda: x[:, i], lambda: x.gather(0, i.reshape(1, 2)), lambda: x.index_select(1, i), lambda: x.scatter(1, i.reshape(1, 2), 1.0),
        lambda: flow.zeros(3, device=dev).scatter_add(0, i, flow.ones(2, device=dev)), lambda: F.embedding(i, x), lambda: F.one_hot(i, 3),
        lambda: x[flow.ones(3, 2, dtype=flow.bool, device=dev)], lambda: x @ x, lambda: flow.bmm(x, x), lambda: x + flow.zeros(4, device=dev),
        lambda: flow.cat([]), lambda: flow.stack([x, x[0]]), lambda: flow.cat([x, x], dim=5), lambda: flow.where(x, x, x), lambda: x.topk(4),
        lambda: x.topk(-1), lambda: F.conv2d(x, x), lambda: F.conv2d(flow.zeros(1, 2, 3, 3), flow.zeros(1, 2, 5, 5)), lambda: F.max_pool2d(x, 2),
        lambda: F.max_pool2d(flow.zeros(1, 1, 4, 4), 2, padding=2), lambda: F.layer_norm(x, (2,)), lambda: F.batch_norm(x, None, None),
        lambda: F.linear(x, flow.zeros(3, 4)), lambda: F.cross_entropy(x, flow.tensor([0, 7])), lambda: x.to("nosuch:0"), lambda: x.to("float16"),
        lambda: flow.zeros(2, device="cpu:99"), lambda: flow.nn.Linear(-1, 2), lambda: flow.nn.Conv2d(3, 4, 3, groups=2), lambda: x.backward(),
        lambda: flow.softmax(x, dim=4), lambda: flow.cumsum(x, dim=2), lambda: x.repeat(2), lambda: flow.einsum("ij,jk", x, x),
        lambda: flow.tensor([[1], [1, 2]]), lambda: flow.tensor(["a"]), lambda: x.item(), lambda: bool(x), lambda: int(x),
        lambda: flow.movedim(x, 0, 5), lambda: flow.unflatten(x, 1, (2, 2)), lambda: flow.diagonal(x, 0, 1, 1), lambda: x.unfold(0, 3, 1),
    ]  # fmt: skip
    for k, call in enumerate(bad):
        refuses(f"number {k}", call)
    assert_equal(x + 1, np.ones((2, 3)))
    assert_equal(flow.matmul(x, x.transpose(0, 1)), np.zeros((2, 2)))


@pytest.mark.parametrize("dtype", ALL)
def test_indices_out_of_range_are_index_errors(dev, dtype):
    x = flow.ones(4, 3, dtype=getattr(flow, dtype), device=dev)
    for bad in (4, -5, 2**40, -(2**40)):
        i = flow.tensor([0, bad], device=dev)
        for name, call in {
            "gather": lambda i=i: x.gather(0, i.reshape(2, 1)), "index_select": lambda i=i: x.index_select(0, i), "indexing": lambda i=i: x[i],
            "scatter": lambda i=i: x.scatter(0, i.reshape(2, 1), 1), "take": lambda i=i: x.take(i * 100), "two": lambda i=i: x[i, i],
            "take_along_dim": lambda i=i: x.take_along_dim(i.reshape(2, 1), 0), "setitem": lambda i=i: x.clone().__setitem__(i, 1),
            "index_fill": lambda i=i: x.index_fill(0, i, 1), "index_put_": lambda i=i: x.clone().index_put_((i,), x[0]),
            "index_add": lambda i=i: x.index_add(0, i, x[:2]), "number": lambda bad=bad: x[bad],
        }.items():  # fmt: skip
            if name == "index_add" and dtype == "bool":
                continue
            with pytest.raises(IndexError):
                array(call())
                raise AssertionError(f"{name}, {bad}: no exception")
    if dtype in FLOATS:
        with pytest.raises(IndexError):
            array(F.embedding(flow.tensor([0, 4], device=dev), x))


def test_copies_keep_program_order(dev):
    for dtype in ("float32", "float64", "int64", "uint8", "bool"):
        for n in (1, 1000, 1 << 18):
            a = (np.arange(n) % 2).astype(dtype)
            want = a.copy()
            t = flow.tensor(a, device=dev)
            a[:] = 1 - a
            s = flow.tensor(want)
            d = s.to(dev, copy=True)
            s.zero_()
            u = t.clone()
            t.zero_()
            h = u.cpu().clone()
            u.fill_(1)
            v = flow.zeros(n, dtype=t.dtype, device=dev)
            v.copy_(d)
            d.zero_()
            assert_equal(h, want, dtype)
            assert_equal(v, want, dtype)
            assert_equal(t, np.zeros(n), dtype)


def test_threads_share_tensors(dev):
    w = tensor(dev, np.random.default_rng(9).integers(-3, 4, (64, 64)).astype(np.float32))
    want = array(w) @ array(w)
    faults: list[object] = []

    def work(k: int) -> None:
        try:
            for _ in range(30):
                x = w.clone().requires_grad_()
                y = flow.matmul(x, w)
                assert_equal(y, want)
                y.sum().backward()
                assert_equal(x.grad, np.broadcast_to(array(w).sum(1), (64, 64)))
        except BaseException as error:  # a thread's exception is lost otherwise
            faults.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not faults, faults[0]


# ---- training -----------------------------------------------------------------------------------------------------------------------------

OPTIMIZERS = {
    "SGD": (flow.optim.SGD, {"lr": 0.1}),
    "SGD momentum": (flow.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "SGD nesterov": (flow.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "SGD dampening": (flow.optim.SGD, {"lr": 0.1, "momentum": 0.5, "dampening": 0.3}),
    "Adam": (flow.optim.Adam, {"lr": 0.05}),
    "Adam amsgrad": (flow.optim.Adam, {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1}),
    "AdamW": (flow.optim.AdamW, {"lr": 0.05, "weight_decay": 0.1}),
}
SCHEDULES = {
    "none": None,
    "step": lambda o: flow.optim.lr_scheduler.StepLR(o, 2, 0.5),
    "cosine": lambda o: flow.optim.lr_scheduler.CosineAnnealingLR(o, 7),
    "restarts": lambda o: flow.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2),
    "polynomial": lambda o: flow.optim.lr_scheduler.PolynomialLR(o, 9, 2.0),
    "one cycle": lambda o: flow.optim.lr_scheduler.OneCycleLR(o, 0.2, 20),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_resumed_training_has_the_same_bits(dev, tmp_path, optimizer, schedule):
    """Model, optimizer, schedule and generator saved in the middle and loaded into fresh ones."""
    make, options = OPTIMIZERS[optimizer]
    x = tensor(dev, np.random.default_rng(10).standard_normal((8, 4)).astype(np.float32))

    def fresh():
        model = flow.nn.Sequential(flow.nn.Linear(4, 5), flow.nn.ReLU(), flow.nn.Dropout(0.3), flow.nn.BatchNorm1d(5), flow.nn.Linear(5, 2))
        model = model.to(dev)
        o = make(model.parameters(), **options)
        return model, o, SCHEDULES[schedule](o) if SCHEDULES[schedule] else None

    def steps(model, o, s, n):
        for _ in range(n):
            o.zero_grad()
            (model(x) ** 2).mean().backward()
            o.step()
            if s is not None:
                s.step()

    one = fresh()
    steps(*one, 4)
    flow.save(one[0].state_dict(), str(tmp_path / "model"))
    state = [copy.deepcopy(p.state_dict()) if p is not None else None for p in one]
    generator = flow.get_rng_state()
    steps(*one, 5)
    two = fresh()
    steps(*two, 1)  # what is loaded must replace what is there
    two[0].load_state_dict(flow.load(str(tmp_path / "model")))
    for part, saved in zip(two[1:], state[1:], strict=True):
        if part is not None:
            part.load_state_dict(saved)
    flow.set_rng_state(generator)
    steps(*two, 5)
    for name, value in one[0].state_dict().items():
        assert same_bits(two[0].state_dict()[name], value), name


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("parts", [1, 2, 4, 8])
def test_accumulated_gradients(dev, parts, dtype):
    r = np.random.default_rng(11)
    x, w0 = r.integers(-3, 4, (8, 4)).astype(dtype), r.integers(-2, 3, (4, 3)).astype(dtype)
    want = 2 * x.T @ (x @ w0)
    w = tensor(dev, w0, dtype, grad=True)
    model = lambda rows: (flow.matmul(tensor(dev, rows, dtype), w) ** 2).sum()
    for k in range(0, 8, 8 // parts):
        model(x[k : k + 8 // parts]).backward()
    assert_equal(w.grad, want)
    for make, options in OPTIMIZERS.values():
        for to_none in (True, False):
            make([w], **options).zero_grad(set_to_none=to_none)
            assert w.grad is None if to_none else not array(w.grad).any()
            model(x).backward()
            assert_equal(w.grad, want)
