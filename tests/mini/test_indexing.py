"""gather and scatter, x[indices], embedding, cumsum, sort, topk: against numpy, their gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest

import hal
import oneflow_mini as flow
import oneflow_mini.nn.functional as F
from oneflow_mini import nn
from oneflow_mini.autograd import gradcheck, gradgradcheck

SHAPE = (4, 5, 6)


def data(shape=SHAPE):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def i64(values):
    return flow.tensor(np.asarray(values, np.int64))


INDEX = {
    "list": [0, 2, 1],
    "negative": np.array([-1, 0, -4]),
    "matrix": np.array([[0, 1], [3, 3]]),
    "scalar-array": np.array(2),
    "two": (np.array([0, 3]), np.array([1, -1])),
    "broadcast": (np.array([[0], [3]]), np.array([1, 2, 4])),
    "three": (np.array([0, 3]), np.array([1, 1]), np.array([5, 0])),
    "inner": (slice(None), np.array([4, 0, 0])),
    "last": (Ellipsis, np.array([5, -6])),
    "apart": (np.array([0, 1]), slice(None), np.array([2, 3])),
    "slice-and-two": (slice(1, 3), np.array([0, 1]), np.array([2, 3])),
    "step": (slice(None, None, 2), np.array([0, 1])),
    "none": (None, np.array([0, 1])),
    "none-between": (np.array([0, 1]), None, np.array([2, 3])),
    "row-mask": np.array([True, False, True, False]),
    "full-mask": data() % 3 == 0,
    "two-masked": (data((4, 5)) % 2 == 0),
    "mask-inner": (slice(None), data((5, 6)) % 7 == 0),
    "mask-and-slice": (np.array([True, False, True, True]), slice(1, 3)),
    "mask-and-integers": (np.array([True, False, True, False]), np.array([4, 2])),
    "empty": np.zeros(0, np.int64),
    "no-mask": np.zeros(SHAPE, bool),
}


def as_index(index):
    if isinstance(index, tuple):
        return tuple(as_index(i) for i in index)
    return flow.tensor(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("name", INDEX)
def test_read_as_numpy(name):
    x, index = data(), INDEX[name]
    got = flow.tensor(x)[as_index(index)]
    np.testing.assert_array_equal(got.numpy(), x[index], strict=True)
    turned = flow.tensor(np.ascontiguousarray(x.transpose(2, 0, 1))).permute(1, 2, 0)
    np.testing.assert_array_equal(turned[as_index(index)].numpy(), x[index])


@pytest.mark.parametrize("name", [n for n in INDEX if n != "none"])
@pytest.mark.parametrize("strided", [False, True])
def test_write_as_numpy(name, strided):
    x, index = data(), INDEX[name]

    def target():
        return flow.tensor(np.ascontiguousarray(x.transpose(2, 0, 1))).permute(1, 2, 0) if strided else flow.tensor(x)

    t, expected = target(), x.copy()
    t[as_index(index)] = -1.5
    expected[index] = -1.5
    np.testing.assert_array_equal(t.numpy(), expected)
    values = -1 - np.arange(x[index].size, dtype=np.float32).reshape(x[index].shape)
    t, expected = target(), x.copy()
    t[as_index(index)] = flow.tensor(values)
    expected[index] = values
    np.testing.assert_array_equal(t.numpy(), expected)  # of equal places numpy keeps the last too


def test_integers_and_tensors_mix_as_in_pytorch():
    x = data()
    np.testing.assert_array_equal(flow.tensor(x)[0, :, i64([1, 3])].numpy(), x[0][:, [1, 3]])
    np.testing.assert_array_equal(flow.tensor(x)[i64(1)].numpy(), x[1])
    assert flow.tensor(x)[True].shape == (1, *SHAPE)
    assert flow.tensor(x)[False].shape == (0, *SHAPE)
    assert flow.tensor(x)[flow.tensor(True)].shape == (1, *SHAPE)


def test_written_value_broadcasts_and_casts():
    t = flow.zeros(3, 4, dtype=flow.int32)
    t[i64([0, 2])] = flow.tensor([1.0, 2.0, 3.0, 4.0])
    assert t.tolist() == [[1, 2, 3, 4], [0, 0, 0, 0], [1, 2, 3, 4]]
    t[t == 0] = 9
    assert t.tolist() == [[1, 2, 3, 4], [9, 9, 9, 9], [1, 2, 3, 4]]


def test_write_from_itself():
    t = flow.arange(6)
    t[i64([5, 4, 3, 2, 1, 0])] = t
    assert t.tolist() == [5, 4, 3, 2, 1, 0]
    t.scatter_(0, t, t)
    assert t.tolist() == [0, 1, 2, 3, 4, 5]


def test_index_put_accumulates():
    t = flow.zeros(3, 2)
    t.index_put_((i64([0, 0, 2]), i64([1, 1, 0])), flow.tensor([1.0, 2.0, 4.0]), accumulate=True)
    assert t.tolist() == [[0, 3], [0, 0], [4, 0]]
    assert flow.zeros(2).index_put((i64([1]),), 5.0).tolist() == [0, 5]


@pytest.mark.parametrize("name", ["negative", "two", "apart", "full-mask", "mask-and-integers", "inner", "matrix"])
def test_gradients_of_reading(name, f64):
    index = as_index(INDEX[name])
    x = f64(*SHAPE)
    assert gradcheck(lambda t: t[index] * t[index], (x,))
    small = as_index(np.array([0, 2, 2])) if name == "inner" else None
    if small is not None:
        assert gradgradcheck(lambda t: t[small] * t[small], (f64(3, 2),))


@pytest.mark.parametrize("name", ["list", "negative", "two", "apart", "inner", "mask-and-integers"])
def test_gradients_of_writing(name, f64):
    index = as_index(INDEX[name])
    x = f64(*SHAPE)
    value = f64(*x[index].shape)

    def write(a, v):
        out = a * 1.0
        out[index] = v * v
        return out * out

    assert gradcheck(write, (x, value))


def test_a_leaf_is_not_written():
    x = flow.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        x[i64([0])] = 1.0


def test_saved_value_is_guarded():
    x = flow.ones(3, requires_grad=True)
    y = x * 2.0
    z = y * y
    y[i64([1])] = 5.0
    with pytest.raises(RuntimeError, match=r"in.?place"):
        z.sum().backward()


GATHER = i64([[0, 2, 2], [1, 1, 0]])


def test_gather_scatter_gradients(f64):
    x, src = f64(3, 3), f64(2, 3)
    assert gradcheck(lambda t: flow.gather(t, 0, GATHER) ** 2, (x,))
    assert gradgradcheck(lambda t: flow.gather(t, 0, GATHER) ** 3, (x,))
    assert gradcheck(lambda t, s: flow.scatter_add(t, 0, GATHER, s) ** 2, (x, src))
    assert gradgradcheck(lambda t, s: flow.scatter_add(t, 0, GATHER, s) ** 3, (x, src))
    twice = i64([[0, 2, 1], [0, 1, 1]])  # equal destinations: the overwritten source has no gradient
    assert gradcheck(lambda t, s: flow.scatter(t, 0, twice, s) ** 2, (x, src))
    assert gradgradcheck(lambda t, s: flow.scatter(t, 0, twice, s) ** 3, (x, src))
    assert gradcheck(lambda t, s: flow.index_add(t, 1, i64([0, 0, 2]), s) ** 2, (src, f64(2, 3)))
    assert gradcheck(lambda t: flow.index_select(t, 1, i64([0, 0, 2])) ** 2, (src,))
    assert gradcheck(lambda t: flow.take_along_dim(t, i64([[0], [1], [2]]), 1) ** 2, (x,))


def test_gather_scatter_values():
    x = flow.tensor(data((3, 4)))
    index = i64([[0, 2], [1, 1]])
    assert x.gather(0, index).tolist() == [[0, 9], [4, 5]]
    assert x.gather(-1, index).tolist() == [[0, 2], [5, 5]]
    assert x.scatter(1, index, -1.0).tolist()[0] == [-1, 1, -1, 3]
    assert x.scatter(1, index, value=7)[1].tolist() == [4, 7, 6, 7]
    assert x.scatter(1, i64([[2, 2]]), flow.tensor([[5.0, 6.0]]))[0].tolist() == [0, 1, 6, 3]
    assert x.clone().scatter_(1, index, flow.zeros(2, 2))[0].tolist() == [0, 1, 0, 3]
    assert x.clone().scatter_add_(0, i64([[0, 0, 0, 0]]), flow.ones(1, 4))[0].tolist() == [1, 2, 3, 4]
    assert x.index_select(1, i64([3, 0])).tolist() == [[3, 0], [7, 4], [11, 8]]
    assert x.clone().index_add_(0, i64([0, 0]), flow.ones(2, 4), alpha=2)[0].tolist() == [4, 5, 6, 7]
    assert flow.tensor(5.0).gather(
        0,
        i64(
            [
                0,
            ]
        ),
    ).tolist() == [5]
    assert x.take(i64([0, -1])).tolist() == [0, 11]
    assert x.masked_select(x > 8.0).tolist() == [9, 10, 11]
    assert flow.nonzero(x > 9.0).tolist() == [[2, 2], [2, 3]]
    assert [t.tolist() for t in flow.nonzero(x > 9.0, as_tuple=True)] == [[2, 2], [2, 3]]


BAD = {
    "index range": (lambda x: x[i64([3])], IndexError, "out of bounds"),
    "negative range": (lambda x: x[i64([-4])], IndexError, "out of bounds"),
    "float index": (lambda x: x[flow.tensor([1.0])], IndexError, "integers or bool"),
    "mask shape": (lambda x: x[flow.tensor([True, False])], IndexError, "mask"),
    "too many": (lambda x: x[i64([0]), i64([0]), i64([0])], IndexError, "too many"),
    "no broadcast": (lambda x: x[i64([0, 1]), i64([0, 1, 2])], IndexError, "broadcast"),
    "value shape": (lambda x: x.__setitem__(i64([0, 1]), flow.zeros(3)), ValueError, "shape mismatch|broadcast"),
    "gather range": (lambda x: x.gather(0, i64([[3]])).numpy(), IndexError, r"\[gather\] index out of range: got 3"),
    "gather dtype": (lambda x: x.gather(0, flow.tensor([[0.0]])), TypeError, "int64"),
    "gather rank": (lambda x: x.gather(0, i64([0])), ValueError, "dimensions"),
    "gather size": (lambda x: x.gather(0, i64([[0] * 5])), ValueError, "index shape"),
    "gather dim": (lambda x: x.gather(2, i64([[0]])), IndexError, "gather"),
    "scatter dtype": (lambda x: x.scatter(0, i64([[0]]), i64([[0]])), RuntimeError, "dtype"),
    "scatter size": (lambda x: x.scatter(0, i64([[0, 0]]), flow.zeros(1, 1)), ValueError, "src"),
    "scatter_add range": (lambda x: x.scatter_add(0, i64([[-1]]), flow.ones(1, 1)).numpy(), IndexError, "out of range: got -1"),
    "index_select vector": (lambda x: x.index_select(0, i64([[0]])), IndexError, "vector"),
    "index_add shape": (lambda x: x.index_add(0, i64([0]), flow.zeros(2, 4)), ValueError, "index_add"),
    "embedding range": (lambda x: F.embedding(i64([3]), x).numpy(), IndexError, "out of range: got 3"),
    "embedding padding": (lambda x: F.embedding(i64([0]), x, padding_idx=3), ValueError, "padding_idx"),
    "embedding dtype": (lambda x: F.embedding(flow.tensor([0.0]), x), TypeError, "int64"),
    "topk": (lambda x: x.topk(5), IndexError, "out of range"),
    "cumsum dim": (lambda x: x.cumsum(2), IndexError, "cumsum"),
    "flip": (lambda x: x.flip(0, 0), ValueError, "multiple times"),
    "tril": (lambda x: flow.tril(x[0]), ValueError, "2 dimensions"),
    "randint": (lambda x: flow.randint(0, 300, (2,), dtype=flow.uint8), ValueError, "uint8"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, kind, text = BAD[name]
    with pytest.raises(kind, match=text):
        call(flow.tensor(data((3, 4))))
    assert flow.ones(2).sum().item() == 2


def test_embedding():
    layer = nn.Embedding(7, 3, padding_idx=-2)
    assert layer.padding_idx == 5 and layer.weight[5].tolist() == [0, 0, 0]
    ids = i64([[0, 5, 0], [6, 5, 1]])
    out = layer(ids)
    assert out.shape == (2, 3, 3)
    np.testing.assert_array_equal(out.detach().numpy(), layer.weight.detach().numpy()[ids.numpy()])
    (out * 2.0).sum().backward()
    assert layer.weight.grad.tolist() == [[4] * 3, [2] * 3, [0] * 3, [0] * 3, [0] * 3, [0] * 3, [2] * 3]
    assert "padding_idx=5" in repr(layer)
    frozen = nn.Embedding.from_pretrained(flow.ones(2, 3))
    assert not frozen.weight.requires_grad and frozen(i64(1)).tolist() == [1, 1, 1]
    with pytest.raises(NotImplementedError, match="max_norm"):
        nn.Embedding(3, 2, max_norm=1.0)


def test_embedding_gradients(f64):
    ids = i64([[0, 2], [2, 1]])
    assert gradcheck(lambda w: F.embedding(ids, w) ** 2, (f64(4, 3),))
    assert gradgradcheck(lambda w: F.embedding(ids, w) ** 3, (f64(4, 3),))


def test_long_embedding_gradient_has_the_chains_of_the_contract(rng):
    n = 1300
    weight = flow.zeros(2, 3, requires_grad=True)
    g = rng.standard_normal((n, 3)).astype(np.float32)
    F.embedding(flow.zeros(n, dtype=flow.int64), weight).backward(flow.tensor(g))
    chains = [np.add.accumulate(np.concatenate([np.zeros((1, 3), np.float32), g[k : k + 512]]), axis=0)[-1] for k in range(0, n, 512)]
    expected = chains[0]
    for chain in chains[1:]:
        expected = expected + chain
    np.testing.assert_array_equal(weight.grad.numpy()[0], expected)
    np.testing.assert_array_equal(weight.grad.numpy()[1], 0)


def test_order(f64, rng):
    x = flow.tensor([3.0, float("nan"), -1.0, 3.0, 0.0, -0.0])
    values, indices = x.sort()
    assert indices.tolist() == [2, 4, 5, 0, 3, 1] and values.tolist()[:5] == [-1, 0, 0, 3, 3]
    assert x.sort(descending=True).indices.tolist() == [1, 0, 3, 4, 5, 2]
    assert x.argsort(descending=True).tolist() == [1, 0, 3, 4, 5, 2]
    assert x.topk(2).indices.tolist() == [1, 0] and x.topk(2, largest=False).values.tolist() == [-1, 0]
    assert flow.tensor(2.0).sort().values.item() == 2
    assert flow.tensor([[1, 2], [3, 4]]).cumsum(0).tolist() == [[1, 2], [4, 6]]
    assert flow.tensor([True, True]).cumsum(0).dtype == flow.int64
    assert flow.tensor(data((2, 3))).flip(0).tolist() == [[3, 4, 5], [0, 1, 2]]
    assert flow.flip(flow.tensor(data((2, 3))), (0, 1)).tolist() == [[5, 4, 3], [2, 1, 0]]
    y = f64(3, 4)
    for f in (lambda t: t.sort(0)[0] ** 3, lambda t: t.topk(2, 1)[0] ** 3, lambda t: t.cumsum(1) ** 3, lambda t: t.flip(1) ** 3):
        assert gradcheck(f, (y,)) and gradgradcheck(f, (y,))
    many = rng.standard_normal((50, 30)).astype(np.float32)
    np.testing.assert_array_equal(flow.tensor(many).sort(0).values.numpy(), np.sort(many, 0))
    np.testing.assert_array_equal(flow.tensor(many).argsort(1).numpy(), np.argsort(many, 1, kind="stable"))


def test_triangles():
    x = data((3, 4))
    for k in (-2, 0, 1):
        np.testing.assert_array_equal(flow.tril(flow.tensor(x), k).numpy(), np.tril(x, k))
        np.testing.assert_array_equal(flow.tensor(x).triu_(k).numpy(), np.triu(x, k))
    assert flow.ones(2, 2).bool().tril().tolist() == [[True, False], [True, True]]


def test_permutations_are_permutations():
    flow.manual_seed(3)
    p = flow.randperm(1000)
    assert sorted(p.tolist()) == list(range(1000)) and p.tolist() != list(range(1000))
    flow.manual_seed(3)
    assert flow.randperm(1000).tolist() == p.tolist()
    assert flow.randint(0, 256, (100,), dtype=flow.uint8).max().item() <= 255


@pytest.mark.parametrize("n", [1, 7])
def test_same_bits_for_any_number_of_threads(n, rng):
    x = flow.tensor(rng.standard_normal((3000, 40)).astype(np.float32))
    ids = i64(rng.integers(0, 50, 3000))
    flat, to = x.reshape(-1), i64(rng.integers(0, 100, 120000))
    before = hal.get_num_threads()
    results = []
    for threads in (n, 2):
        hal.set_num_threads(threads)
        results.append(
            [
                flow.zeros(50, 40).index_add(0, ids, x).numpy(),
                flow.zeros(100).scatter_add(0, to, flat).numpy(),
                flat.cumsum(0).numpy(),
                x.cumsum(0).numpy(),
                x.sort(0).indices.numpy(),
                x[ids].numpy(),
            ]
        )
    hal.set_num_threads(before)
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
