"""What was broken once: each test holds the right value of a fault that was found by trying to break the package."""

from __future__ import annotations

import gc
import os
import stat
import subprocess
import sys
import threading
import time
import warnings
import weakref

import numpy as np
import pytest

import hal
import oneflow_mini as flow
from oneflow_mini import nn
from oneflow_mini.nn import functional as F


def run_python(code: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, check=False)


# ---- empty tensors ---------------------------------------------------------------------------------------------------------------------


def test_minus_one_in_a_shape_of_an_empty_tensor():
    assert flow.empty(0).reshape(-1).shape == (0,) and flow.empty(2, 0).view(-1).shape == (0,)
    assert flow.empty(0, 3).view(-1, 3).shape == (0, 3) and flow.empty(0, 4).reshape(-1, 2).shape == (0, 2)
    with pytest.raises(ValueError, match="invalid"):
        flow.empty(0, 3).view(-1, 0)


def test_average_pooling_of_an_empty_batch():
    assert F.avg_pool2d(flow.empty(0, 3, 8, 8), 2).shape == (0, 3, 4, 4)


# ---- cycles through Python are collected ---------------------------------------------------------------------------------------------


def collected(make) -> bool:
    alive = make()
    gc.collect()
    return alive() is None


def test_a_tensor_that_holds_itself_is_collected():
    def make():
        t = flow.zeros(4)
        t.me = [t]
        return weakref.ref(t)

    assert collected(make)


@pytest.mark.parametrize("leaf", [True, False])
def test_a_hook_that_holds_its_tensor_is_collected(leaf):
    def make():
        x = flow.zeros(4, requires_grad=True)
        t = x if leaf else x * 2
        t.register_hook(lambda g: t and None)
        return weakref.ref(t)

    assert collected(make)


def test_a_parameter_that_holds_its_module_is_collected():
    def make():
        module = nn.Linear(3, 3)
        module.weight.owner = module
        module.weight.register_hook(lambda g: module and None)
        return weakref.ref(module)

    assert collected(make)


def test_the_collector_leaves_hooks_of_a_graph_in_use():
    x = flow.ones(2, requires_grad=True)
    calls = []

    def forward():
        y = x * 2
        y.register_hook(lambda g: calls.append(y.shape))  # a cycle, but z's graph can still reach it
        return (y * 3).sum()

    z = forward()
    gc.collect()
    z.backward()
    assert calls == [(2,)]


def test_the_collector_leaves_hooks_whose_handle_is_held():
    x = flow.ones(2, requires_grad=True)
    calls = []
    handle = x.register_hook(lambda g: calls.append(1))
    gc.collect()
    (x * 1).sum().backward()
    handle.remove()
    (x * 1).sum().backward()
    assert calls == [1]


def test_attributes_of_a_subclass_survive_the_collector():
    parameter = nn.Parameter(flow.ones(2))
    parameter.tag = {"me": parameter}
    gc.collect()
    assert parameter.tag["me"] is parameter and isinstance(parameter, nn.Parameter)


# ---- hooks that change the list of hooks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaf", [True, False])
def test_a_hook_that_adds_itself_again_runs_once_a_pass(leaf):
    x = flow.ones(1, requires_grad=True)
    t = x if leaf else x * 1
    calls = []

    def hook(g):
        calls.append(1)
        if len(calls) < 50:
            t.register_hook(hook)

    t.register_hook(hook)
    (t * 1).backward()
    assert len(calls) == 1


@pytest.mark.parametrize("leaf", [True, False])
def test_a_hook_that_removes_itself_does_not_skip_the_next(leaf):
    x = flow.ones(1, requires_grad=True)
    t = x if leaf else x * 1
    handles = []

    def first(g):
        handles[0].remove()
        gc.collect()
        return g * 2

    handles.append(t.register_hook(first))
    t.register_hook(lambda g: g * 3)
    del first
    (t * 1).backward()
    assert x.grad.item() == 6


# ---- integer powers ------------------------------------------------------------------------------------------------------------------

INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]


@pytest.mark.parametrize("a", INTEGERS)
@pytest.mark.parametrize("b", INTEGERS)
def test_integer_powers_stay_integers_and_wrap(a, b):
    base, exponent = np.array([0, 1, 2, 3, 7, 10]).astype(a), np.array([0, 5, 3, 4, 2, 11]).astype(b)
    with np.errstate(over="ignore"):
        want = (base.astype(np.result_type(a, b)) ** exponent.astype(np.result_type(a, b))).astype(np.result_type(a, b))
    got = flow.tensor(base) ** flow.tensor(exponent)
    assert got.dtype == getattr(flow, want.dtype.name)
    np.testing.assert_array_equal(got.numpy(), want)


def test_integer_powers_are_exact_beyond_f32():
    assert (3 ** flow.tensor([35, 0])).tolist() == [3**35, 1]
    assert flow.pow(flow.tensor([3]), flow.tensor([35])).tolist() == [3**35]
    x = flow.tensor([3, -2])
    x **= flow.tensor([35, 63])
    assert x.tolist() == [3**35, -(2**63)]


def test_negative_integer_exponents_give_the_integer_part():
    base = flow.tensor([1, -1, -1, 2, -3, 5])
    assert (base ** flow.tensor([-3, -3, -4, -1, -2, 0])).tolist() == [1, -1, 1, 0, 0, 1]
    with pytest.raises(ValueError, match="negative"):
        base**-1


def test_powers_of_bool():
    flags = flow.tensor([True, False])
    squared = flags**2
    assert squared.dtype == flow.int64 and squared.tolist() == [1, 0]
    with pytest.raises(TypeError, match="bool"):
        flags**flags
    assert (flow.tensor([[2, 3]]) ** flow.tensor([[1], [2]])).tolist() == [[2, 3], [4, 9]]
    assert (flow.zeros(0, dtype=flow.int64) ** flow.zeros(0, dtype=flow.int64)).shape == (0,)


# ---- values that don't fit ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [[300], [[1, 2], [3, -1]], [1.0, 256.0], [-1.5]])
def test_lists_out_of_range_are_refused_as_numbers_are(data):
    with pytest.raises(ValueError, match="uint8"):
        flow.tensor(data, dtype=flow.uint8)


def test_lists_in_range_are_kept():
    assert flow.tensor([0, 255], dtype=flow.uint8).tolist() == [0, 255]
    assert flow.tensor([1.7, -2.5], dtype=flow.int8).tolist() == [1, -2]
    assert flow.tensor([300], dtype=flow.bool).tolist() == [True]
    assert flow.tensor([], dtype=flow.uint8).shape == (0,)


def test_arange_over_all_of_int64_is_too_large_not_wrapped():
    with pytest.raises(hal.OutOfMemoryError):
        flow.arange(-(2**63), 2**63 - 1)
    assert flow.arange(-(2**63), 2**63 - 1, 2**62).tolist() == [-(2**63), -(2**62), 0, 2**62]


def test_random_integers_must_fit_their_dtype():
    with pytest.raises(ValueError, match="uint8"):
        flow.randint(0, 257, (2,), dtype=flow.uint8)
    with pytest.raises(ValueError, match="int8"):
        flow.randint(-129, 5, (2,), dtype=flow.int8)
    assert flow.randint(0, 256, (2,), dtype=flow.uint8).dtype == flow.uint8


@pytest.mark.parametrize("p", [2.0, -0.1, float("nan")])
def test_bernoulli_takes_probabilities(p):
    with pytest.raises(ValueError, match="probabilities"):
        flow.bernoulli(flow.tensor([0.5, p]))
    assert flow.bernoulli(flow.tensor([0.0, 1.0])).tolist() == [0, 1]
    assert flow.bernoulli(flow.empty(0)).shape == (0,)


# ---- shapes that must be refused -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "a", "b"), [("mm", (3,), (3,)), ("mm", (1, 2, 2), (2, 2)), ("bmm", (2, 2), (2, 2)), ("bmm", (1, 2, 2), (3, 2, 2)),
                                            ("bmm", (1, 2, 2), (2, 2))])  # fmt: skip
def test_mm_and_bmm_check_ranks(op, a, b):
    with pytest.raises(ValueError, match=rf"\[{op}\]"):
        getattr(flow, op)(flow.ones(a), flow.ones(b))


def test_dims_of_0d_tensors_are_checked():
    x = flow.tensor(1.0)
    for call in (lambda: x.softmax(1), lambda: x.log_softmax(-2), lambda: x.sum(3)):
        with pytest.raises(IndexError):
            call()
    with pytest.raises(ValueError, match="multiple times"):
        x.sum((0, 0))
    for call in (lambda: x.narrow(0, 0, 0), lambda: x.unbind(0)):
        with pytest.raises(hal.InvalidArgumentError):
            call()
    assert x.softmax(0).item() == 1 and x.sum(-1).item() == 1 and x.sum((0,), keepdim=True).shape == ()


# ---- errors name the argument --------------------------------------------------------------------------------------------------------------

BAD_DIMS = ["tensor", "x", [None], 1.5, np.float32(1), ["tensor"], {}, b"a", lambda: None]


def filled(bad):
    """With a tensor in place of its name: none may live on from the collection of tests."""
    return flow.ones(2) if bad == "tensor" else [flow.ones(2)] if bad == ["tensor"] else bad


@pytest.mark.parametrize("op", ["sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "any", "all", "squeeze", "max", "min", "split"])
@pytest.mark.parametrize("bad", range(len(BAD_DIMS)))
def test_a_dim_of_a_wrong_type_is_a_type_error(op, bad):
    if op in ("max", "min") and bad == 0:
        return  # two tensors: the pointwise maximum
    with pytest.raises(TypeError, match=r"dim|split_size"):
        getattr(flow, op)(flow.ones(2, 3), filled(BAD_DIMS[bad]))


@pytest.mark.parametrize("op", ["sum", "max", "split", "squeeze"])
def test_a_dim_beyond_int64_is_a_value_error(op):
    with pytest.raises(ValueError, match="int64"):
        getattr(flow, op)(flow.ones(2, 3), 2**64)


@pytest.mark.parametrize("call", [lambda n: flow.zeros(n), lambda n: flow.ones(2, n), lambda n: flow.full((n,), 1), lambda n: flow.ones(2).view(n),
                                  lambda n: flow.ones(2).expand(n, 2), lambda n: flow.randn((n,)), lambda n: flow.ones(2).new_zeros(n),
                                  lambda n: F.max_pool2d(flow.ones(1, 1, 4, 4), n)])  # fmt: skip
def test_a_size_beyond_int64_is_a_value_error(call):
    with pytest.raises(ValueError, match="int64"):
        call(2**64)


@pytest.mark.parametrize("bad", ["x", None, [1], (), "tensor", {}])
def test_arange_of_a_wrong_type(bad):
    with pytest.raises(TypeError, match=r"\[arange\]"):
        flow.arange(filled(bad))


def test_arange_takes_tensors_of_one_element():
    assert flow.arange(flow.tensor(3)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("call", "name"), [
    (lambda bad: F.mse_loss(flow.ones(2), bad), "target"), (lambda bad: F.cross_entropy(flow.ones(2, 2), bad), "target"),
    (lambda bad: F.nll_loss(bad, flow.zeros(2, dtype=flow.int64)), "input"), (lambda bad: F.conv1d(flow.ones(1, 1, 4), bad), "weight"),
    (lambda bad: F.batch_norm(flow.ones(2, 2), bad, bad), "running_mean"), (lambda bad: F.relu(bad, inplace=True), "input"),
    (lambda bad: flow.allclose(bad, flow.ones(2)), "input"), (lambda bad: flow.norm(bad), "input"), (lambda bad: flow.var(bad), "input"),
    (lambda bad: flow.ones(2).masked_fill(bad, 1), "mask"),
])  # fmt: skip
@pytest.mark.parametrize("bad", [3, "x", [1.0], np.ones(2)])
def test_what_is_no_tensor_is_a_type_error_that_names_the_argument(call, name, bad):
    with pytest.raises(TypeError, match=name):
        call(bad)


@pytest.mark.parametrize("call", [lambda g: flow.rand(2, generator=g), lambda g: flow.ones(2).normal_(generator=g),
                                  lambda g: flow.randint(3, (2,), generator=g)])  # fmt: skip
def test_a_generator_of_a_wrong_type(call):
    for bad in (1, "x", [1]):
        with pytest.raises(TypeError, match="generator"):
            call(bad)


def test_backward_inputs_of_a_wrong_type():
    x = flow.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="inputs"):
        x.sum().backward(inputs=[1])


def test_numbers_of_numpy_on_the_left_give_tensors():
    x = flow.ones(2, requires_grad=True)
    for y in (np.float32(3) * x, np.int64(3) + x, np.float64(2) ** x, np.float32(3) - x):
        assert isinstance(y, flow.Tensor) and y.dtype == flow.float32 and y.requires_grad
    with pytest.raises(TypeError):
        np.ones(2) * x


def test_warnings_point_at_the_caller():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        F.mse_loss(flow.ones(2), flow.ones(1))
        F.softmax(flow.ones(2, 2))
    assert [w.filename for w in seen] == [__file__, __file__]


# ---- files ---------------------------------------------------------------------------------------------------------------------------------


def test_save_writes_to_devices_and_through_links(tmp_path):
    before = os.stat("/dev/null")
    flow.save({"a": flow.ones(2)}, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode) and os.stat("/dev/null").st_ino == before.st_ino
    target, link = tmp_path / "target.safetensors", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    flow.save({"a": flow.ones(2)}, link)
    assert link.is_symlink() and flow.load(target)["a"].tolist() == [1, 1]
    with pytest.raises(IsADirectoryError):
        flow.save({}, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "target.safetensors"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_save_to_a_full_disk_raises():
    with pytest.raises(OSError):
        flow.save({"a": flow.ones(1 << 16)}, "/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_save_takes_bytes_paths_and_refuses_broken_keys(tmp_path):
    path = os.fsencode(tmp_path / "x.safetensors")
    flow.save({"a": flow.ones(2)}, path)
    with pytest.raises(ValueError, match="Unicode"):
        flow.save({"\ud800": flow.ones(1)}, path)
    assert flow.load(path)["a"].tolist() == [1, 1]


def test_a_number_too_large_for_f64_in_a_file_is_a_value_error(tmp_path):
    header = b'{"__metadata__":{"oneflow_mini":"{\\"f\\":\\"0x1p99999\\"}"}}'
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ValueError, match=r"x\.safetensors"):
        flow.load(path)


# ---- threads and the end of the process ------------------------------------------------------------------------------------------------------


def test_exit_while_a_daemon_thread_computes():
    result = run_python("""
import threading, time
import oneflow_mini as flow
def work():
    x = flow.randn(700, 700)
    while True:
        (x @ x + x).sum().item()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
print("end", flush=True)
""")
    assert (result.returncode, result.stdout, result.stderr) == (0, "end\n", "")


def test_data_replaced_by_another_thread_while_an_op_reads_it():
    """The op works on what was there when it began."""
    n = 1 << 20
    t = flow.ones(n)
    stop = threading.Event()

    def replace():
        while not stop.is_set():
            t.data = flow.ones(n)
            time.sleep(0)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(60):
            assert (t + 1).sum().item() == 2 * n
            assert t.sum().item() == n
    finally:
        stop.set()
        thread.join()
