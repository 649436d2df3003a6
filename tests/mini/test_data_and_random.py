"""Loading data, the random state, and the text of tensors."""

from __future__ import annotations

import numpy as np
import pytest

import oneflow_mini as flow
from oneflow_mini.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    random_split,
)


class Squares(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"x": flow.tensor([float(i)]), "y": i * i, "name": str(i)}


# ----- data -----------------------------------------------------------------------------------------------------------------------


def test_batches_in_order():
    data = TensorDataset(flow.arange(10), flow.arange(10).to(flow.float32).reshape(10, 1) * 2)
    batches = list(DataLoader(data, batch_size=4))
    assert [tuple(b[0].shape) for b in batches] == [(4,), (4,), (2,)] and len(DataLoader(data, batch_size=4)) == 3
    np.testing.assert_array_equal(batches[2][0].numpy(), [8, 9])
    np.testing.assert_array_equal(batches[1][1].numpy(), [[8.0], [10.0], [12.0], [14.0]])
    assert len(list(DataLoader(data, batch_size=4, drop_last=True))) == len(DataLoader(data, batch_size=4, drop_last=True)) == 2
    assert [int(x) for x, _ in DataLoader(data, batch_size=None)] == list(range(10))


def test_shuffle_is_a_new_permutation_of_the_seed():
    data = TensorDataset(flow.arange(100))
    loader = DataLoader(data, batch_size=7, shuffle=True)

    def order():
        return np.concatenate([b[0].numpy() for b in loader])

    flow.manual_seed(3)
    first, second = order(), order()
    assert sorted(first) == sorted(second) == list(range(100)) and (first != second).any() and (first != np.arange(100)).any()
    flow.manual_seed(3)
    np.testing.assert_array_equal(order(), first)
    own = [np.concatenate([b[0].numpy() for b in DataLoader(data, 10, True, generator=flow.Generator().manual_seed(1))]) for _ in range(2)]
    np.testing.assert_array_equal(own[0], own[1])


def test_collating_and_subsets():
    batch = next(iter(DataLoader(Squares(4), batch_size=3)))
    assert tuple(batch["x"].shape) == (3, 1) and batch["y"].tolist() == [0, 1, 4] and batch["name"] == ["0", "1", "2"]
    both = ConcatDataset([Squares(2), Squares(3)])
    assert len(both) == 5 and both[4]["y"] == 4 and both[-1]["y"] == 4 and len(Squares(1) + Squares(1)) == 2
    with pytest.raises(IndexError):
        both[5]
    parts = random_split(Squares(10), [7, 3])
    assert sorted(p["y"] for part in parts for p in (part[i] for i in range(len(part)))) == [i * i for i in range(10)]
    assert [len(p) for p in random_split(Squares(10), [0.5, 0.25, 0.25])] == [6, 2, 2]
    assert Subset(Squares(5), [4, 0])[0]["y"] == 16
    doubled = DataLoader(Squares(4), batch_size=2, collate_fn=lambda samples: [s["y"] for s in samples])
    assert list(doubled) == [[0, 1], [4, 9]]
    with pytest.raises(TypeError, match="default_collate"):
        next(iter(DataLoader([object()])))
    with pytest.raises(ValueError, match="does not equal"):
        random_split(Squares(10), [3, 3])


def test_iterable_and_samplers():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(5))

    assert [b.tolist() for b in DataLoader(Stream(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in DataLoader(Stream(), batch_size=2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(BatchSampler(SequentialSampler(range(5)), 2, False)) == [[0, 1], [2, 3], [4]]
    drawn = list(RandomSampler(range(3), replacement=True, num_samples=50))
    assert len(drawn) == 50 and set(drawn) == {0, 1, 2}
    assert sorted(RandomSampler(range(4))) == [0, 1, 2, 3]
    for options in (
        {"sampler": [1], "shuffle": True},
        {"batch_sampler": [[0]], "drop_last": True},
        {"batch_size": None, "drop_last": True},
    ):
        with pytest.raises(ValueError):
            DataLoader(range(3), **options)


def test_a_batch_doesn_t_share_the_data():
    source = flow.arange(4)
    (batch,) = next(iter(DataLoader(TensorDataset(source), batch_size=4)))
    batch.zero_()
    assert source.tolist() == [0, 1, 2, 3]


# ----- random state -----------------------------------------------------------------------------------------------------------------


def test_seed_and_state():
    flow.manual_seed(11)
    assert flow.initial_seed() == 11
    a = flow.rand(5)
    state = flow.get_rng_state()
    b = flow.randn(3).numpy().copy()
    flow.set_rng_state(state)
    np.testing.assert_array_equal(flow.randn(3).numpy(), b)
    with flow.fork_rng():
        flow.rand(100)
        flow.manual_seed(5)
    flow.manual_seed(11)
    np.testing.assert_array_equal(flow.rand(5).numpy(), a.numpy())
    flow.manual_seed(-1)
    c = flow.rand(2).numpy().copy()
    flow.set_rng_state(flow.get_rng_state())
    flow.manual_seed(2**64 - 1)
    np.testing.assert_array_equal(flow.rand(2).numpy(), c)


def test_generators_are_apart():
    flow.manual_seed(1)
    expected = flow.rand(4).numpy().copy()
    flow.manual_seed(1)
    own = flow.Generator()
    own.manual_seed(1)
    np.testing.assert_array_equal(flow.rand(4, generator=own).numpy(), expected)
    np.testing.assert_array_equal(flow.rand(4).numpy(), expected)


def test_randperm_bernoulli_linspace():
    assert (
        sorted(flow.randperm(50).tolist()) == list(range(50)) and flow.randperm(0).tolist() == [] and flow.randperm(3).dtype == flow.int64
    )
    flow.manual_seed(2)
    keys = flow.rand(50, dtype=flow.float64).numpy()
    flow.manual_seed(2)
    np.testing.assert_array_equal(flow.randperm(50).numpy(), np.argsort(keys, kind="stable"))
    drawn = flow.bernoulli(flow.full((10000,), 0.3)).numpy()
    assert set(np.unique(drawn)) == {0.0, 1.0} and abs(drawn.mean() - 0.3) < 0.02
    for steps in (0, 1, 2, 5, 8):
        np.testing.assert_allclose(flow.linspace(-1, 2, steps).numpy(), np.linspace(-1, 2, steps, dtype="float32"), rtol=0, atol=3e-7)
    ends = flow.linspace(0.1, 0.7, 7, dtype=flow.float64).tolist()
    assert ends[0] == 0.1 and ends[-1] == 0.7


# ----- text -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: flow.tensor([[1.0, 2.0], [3.0, 4.0]]), "tensor([[1., 2.],\n        [3., 4.]])"),
        (lambda: flow.tensor([1.5, 2.25, 100.0]), "tensor([  1.5000,   2.2500, 100.0000])"),
        (lambda: flow.tensor([1e-5, 1.0, float("nan")]), "tensor([1.0000e-05, 1.0000e+00,        nan])"),
        (lambda: flow.tensor([1, -20]), "tensor([  1, -20])"),
        (lambda: flow.tensor([True, False]), "tensor([ True, False])"),
        (lambda: flow.tensor(2.0, requires_grad=True), "tensor(2., requires_grad=True)"),
        (lambda: flow.tensor([2.0], requires_grad=True) * 2, "tensor([4.], grad_fn=<MulBackward>)"),
        (lambda: flow.zeros(0, 3), "tensor([], size=(0, 3))"),
        (lambda: flow.ones(2, dtype=flow.bfloat16), "tensor([1., 1.], dtype=oneflow_mini.bfloat16)"),
        (lambda: flow.ones(1, 1, dtype=flow.int32), "tensor([[1]], dtype=oneflow_mini.int32)"),
        (lambda: flow.arange(2000), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
        (lambda: flow.tensor([float("inf"), 1.0]), "tensor([inf,  1.])"),
    ],
)
def test_repr(make, text):
    assert repr(make()) == str(make()) == text


def test_long_rows_wrap_and_options_hold():
    text = repr(flow.arange(100).to(flow.float32))
    assert text.count("\n") > 5 and all(len(line) <= 80 for line in text.split("\n"))
    flow.set_printoptions(precision=2, threshold=5, edgeitems=1)
    try:
        assert repr(flow.tensor([0.123, 1, 2, 3, 4, 5.5])) == "tensor([0.12,  ..., 5.50])"
    finally:
        flow.set_printoptions(profile="default")
    assert f"{flow.tensor(1.25):.1f}" == "1.2" and "tensor" in f"{flow.ones(2)}"


def test_finfo_iinfo():
    for name in ("float16", "float32", "float64"):
        ours, theirs = flow.finfo(getattr(flow, name)), np.finfo(name)
        assert (ours.bits, ours.eps, ours.max, ours.min, ours.tiny) == (theirs.bits, theirs.eps, theirs.max, theirs.min, theirs.tiny)
    assert flow.finfo(flow.bfloat16).max == 3.3895313892515355e38 and flow.finfo().dtype == "float32"
    for name in ("uint8", "int8", "int16", "int32", "int64"):
        ours, theirs = flow.iinfo(getattr(flow, name)), np.iinfo(name)
        assert (ours.bits, ours.min, ours.max) == (theirs.bits, theirs.min, theirs.max)


def test_composites(rng):
    x = rng.standard_normal((3, 4))
    t = flow.tensor(x)
    np.testing.assert_allclose(t.var(1).numpy(), x.var(1, ddof=1), rtol=1e-12)
    np.testing.assert_allclose(t.std(unbiased=False).numpy(), x.std(), rtol=1e-12)
    np.testing.assert_allclose(flow.var(t, 0, correction=2).numpy(), x.var(0, ddof=2), rtol=1e-12)
    for p in (1, 2, 3, float("inf"), float("-inf"), 0):
        np.testing.assert_allclose(t.norm(p, 1).numpy(), np.linalg.norm(x, p, axis=1), rtol=1e-12)
    assert flow.allclose(t, t + 1e-9) and not flow.allclose(t, t + 1e-3) and flow.equal(t, t.clone()) and not flow.equal(t, t[0])
    nan = flow.tensor([float("nan"), float("inf")])
    assert flow.isclose(nan, nan).tolist() == [False, True] and flow.isclose(nan, nan, equal_nan=True).tolist() == [True, True]


def test_device_namespaces_come_from_discovery():
    import hal

    host = hal.host_device()
    namespace = getattr(flow, host.id)
    assert namespace.is_available() and namespace.device_count() >= 1
    namespace.synchronize()
    namespace.empty_cache(0)
    assert namespace.memory_stats() and len(namespace.mem_get_info()) == 2
    with pytest.raises(AttributeError, match="nochip"):
        flow.nochip.is_available()
