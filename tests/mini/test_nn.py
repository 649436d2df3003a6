"""Modules: registration, state, modes, hooks, text; layers and losses against numpy."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import oneflow_mini as flow
import oneflow_mini.nn.functional as F
from oneflow_mini import nn


def close(tensor, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(tensor.detach().cpu().numpy(), expected, rtol=rtol, atol=atol)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        self.scale = nn.Parameter(flow.ones(2))
        self.register_buffer("count", flow.zeros(1))
        self.register_buffer("scratch", flow.zeros(1), persistent=False)

    def forward(self, x):
        return self.body(self.fc(x)) * self.scale


# ----- Module ---------------------------------------------------------------------------------------------------------------------


def test_names_in_registration_order():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "scale",
        "fc.weight",
        "fc.bias",
        "body.0.weight",
        "body.0.bias",
        "body.2.weight",
        "body.2.bias",
    ]
    assert [n for n, _ in net.named_buffers()] == ["count", "scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "fc", "body", "body.0", "body.1", "body.2"]
    assert [n for n, _ in net.named_children()] == ["fc", "body"]
    assert list(net.state_dict()) == [
        "scale",
        "count",
        "fc.weight",
        "fc.bias",
        "body.0.weight",
        "body.0.bias",
        "body.2.weight",
        "body.2.bias",
    ]
    assert net.get_submodule("body.0") is net.body[0] and net.get_parameter("fc.bias") is net.fc.bias


def test_shared_parameters_are_named_once():
    net = Net()
    net.body[2].weight = nn.Parameter(flow.zeros(2, 4))
    net.other = net.fc
    assert len(list(net.parameters())) == 7


def test_attribute_rules():
    net = Net()
    assert "weight" not in net.fc.__dict__ and isinstance(net.fc.weight, nn.Parameter)
    with pytest.raises(TypeError, match=r"cannot assign .* as parameter 'scale'"):
        net.scale = flow.ones(2)
    with pytest.raises(TypeError, match=r"cannot assign .* as child module 'fc'"):
        net.fc = 3
    with pytest.raises(TypeError, match=r"cannot assign .* as buffer 'count'"):
        net.count = 3
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'missing'"):
        net.missing  # noqa: B018
    net.scale = None
    assert net.scale is None and "scale" not in net.state_dict()
    del net.fc
    assert not hasattr(net, "fc")
    with pytest.raises(KeyError, match="already exists"):
        net.register_buffer("body", flow.zeros(1))
    with pytest.raises(KeyError, match=r"can.*t contain"):
        net.register_parameter("a.b", None)

    class NoInit(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before Module\.__init__"):
        NoInit()
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.Module()(1)


def test_non_leaf_parameter_is_refused():
    module = nn.Module()
    with pytest.raises(TypeError):
        module.register_parameter("p", flow.ones(1, requires_grad=True) * 2)


def test_train_eval_apply_requires_grad():
    net = Net()
    assert net.training and not net.eval().body[1].training and net.train().body[1].training
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "Linear", "ReLU", "Linear", "Sequential", "Net"]
    assert not any(p.requires_grad for p in net.requires_grad_(False).parameters())


def test_state_dict_shares_and_load_copies():
    a, b = Net(), Net()
    state = a.state_dict()
    assert not state["fc.weight"].requires_grad
    with flow.no_grad():
        a.fc.weight.fill_(2.0)
    assert state["fc.weight"].numpy().max() == 2.0
    weight = b.fc.weight
    result = b.load_state_dict(state)
    assert str(result) == "<All keys matched successfully>" and b.fc.weight is weight
    with flow.no_grad():
        a.fc.weight.fill_(3.0)
    close(b.fc.weight, np.full((4, 3), 2.0))


def test_load_state_dict_errors_change_nothing():
    net = Net()
    before = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    state = {k: v + 1 for k, v in net.state_dict().items()}
    state["extra"] = flow.zeros(1)
    del state["scale"]
    state["fc.bias"] = flow.zeros(5)
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(state)
    text = str(error.value)
    assert text.startswith("Error(s) in loading state_dict for Net:\n\t")
    assert 'Unexpected key(s) in state_dict: "extra". ' in text and 'Missing key(s) in state_dict: "scale". ' in text
    assert "size mismatch for fc.bias: copying a param with shape" in text and "the shape in current model is" in text
    for k, v in net.state_dict().items():
        np.testing.assert_array_equal(v.numpy(), before[k])
    state["fc.bias"] = flow.zeros(4)
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["scale"] and result.unexpected_keys == ["extra"]
    with pytest.raises(TypeError, match="dict-like"):
        net.load_state_dict([1])


def test_to_dtype_keeps_parameter_objects_and_integer_buffers():
    net = nn.BatchNorm2d(3)
    weight = net.weight
    net(flow.randn(2, 3, 4, 4)).sum().backward()
    net.double()
    assert net.weight is weight and weight.dtype == flow.float64 and weight.grad.dtype == flow.float64
    assert net.running_mean.dtype == flow.float64 and net.num_batches_tracked.dtype == flow.int64
    assert net.half().weight.dtype == flow.float16 and net.to(flow.bfloat16).weight.dtype == flow.bfloat16
    assert net.to(flow.zeros(1)).float().weight.dtype == flow.float32 and net.to("cpu").cpu().weight.device.is_host
    with pytest.raises(TypeError, match="floating point"):
        net.to(flow.int64)


def test_zero_grad():
    net = Net()
    net(flow.ones(1, 3)).sum().backward()
    assert net.fc.weight.grad is not None
    net.zero_grad(set_to_none=False)
    assert float(net.fc.weight.grad.abs().sum()) == 0.0
    net.zero_grad()
    assert net.fc.weight.grad is None


def test_forward_hooks():
    layer, calls = nn.Linear(2, 2), []
    pre = layer.register_forward_pre_hook(lambda m, args: (args[0] * 0,))
    post = layer.register_forward_hook(lambda m, args, out: calls.append(tuple(args[0].shape)) or out + 1)
    x = flow.ones(3, 2)
    close(layer(x), np.tile(layer.bias.detach().numpy() + 1, (3, 1)))
    assert calls == [(3, 2)]
    pre.remove(), post.remove()
    close(layer(x), x.numpy() @ layer.weight.detach().numpy().T + layer.bias.detach().numpy())


def test_full_backward_hook_sees_and_replaces_gradients():
    layer, seen = nn.Linear(2, 1, bias=False), []

    def hook(module, grad_input, grad_output):
        seen.append((grad_input[0].numpy().copy(), grad_output[0].numpy().copy()))
        return (grad_input[0] * 10,)

    handle = layer.register_full_backward_hook(hook)
    x = flow.ones(1, 2, requires_grad=True)
    (layer(x) * 3).sum().backward()
    w = layer.weight.detach().numpy()
    np.testing.assert_allclose(seen[0][1], [[3.0]])
    np.testing.assert_allclose(seen[0][0], 3 * w, rtol=1e-6)
    close(x.grad, 30 * w)
    handle.remove()
    x.grad = None
    (layer(x) * 3).sum().backward()
    close(x.grad, 3 * w)


def test_repr_as_pytorchs():
    assert repr(nn.Linear(2, 3)) == "Linear(in_features=2, out_features=3, bias=True)"
    assert repr(nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU())) == (
        "Sequential(\n  (0): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n  (1): ReLU()\n)"
    )
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])) == "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    assert repr(nn.Module()) == "Module()"
    assert repr(nn.Parameter(flow.ones(2))).startswith("Parameter containing:\ntensor([1., 1.], requires_grad=True)")


def test_deepcopy_and_pickle():
    net = Net()
    twin = copy.deepcopy(net)
    assert twin.fc.weight is not net.fc.weight and isinstance(twin.fc.weight, nn.Parameter)
    with flow.no_grad():
        net.fc.weight.zero_()
    assert float(twin.fc.weight.detach().abs().sum()) > 0
    t = pickle.loads(pickle.dumps(twin.fc.weight))
    assert isinstance(t, nn.Parameter) and t.requires_grad
    np.testing.assert_array_equal(t.detach().numpy(), twin.fc.weight.detach().numpy())


# ----- containers -----------------------------------------------------------------------------------------------------------------


def test_sequential_and_lists():
    seq = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 3))
    assert len(seq) == 3 and isinstance(seq[-1], nn.Linear) and len(seq[1:]) == 2
    seq.append(nn.Tanh()).insert(0, nn.Identity())
    assert [type(m).__name__ for m in seq] == ["Identity", "Linear", "ReLU", "Linear", "Tanh"]
    del seq[0]
    assert list(seq._modules) == ["0", "1", "2", "3"]
    with pytest.raises(IndexError):
        seq[4]
    modules = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])
    assert len(list(modules.parameters())) == 6 and len(modules[:2]) == 2 and len(modules + [nn.ReLU()]) == 4
    table = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    assert list(table) == ["a", "b"] and "a" in table and [n for n, _ in table.named_children()] == ["a", "b"]
    plist = nn.ParameterList([flow.ones(1), nn.Parameter(flow.zeros(2))])
    assert [n for n, _ in plist.named_parameters()] == ["0", "1"] and len(plist) == 2 and isinstance(plist[0], nn.Parameter)
    pdict = nn.ParameterDict({"w": flow.ones(1)})
    assert list(pdict.keys()) == ["w"] and isinstance(pdict["w"], nn.Parameter)


# ----- layers against numpy -------------------------------------------------------------------------------------------------------


def test_linear(rng):
    x = rng.standard_normal((2, 5, 3)).astype("float32")
    layer = nn.Linear(3, 4)
    close(layer(flow.tensor(x)), x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy())
    assert nn.Linear(3, 4, bias=False).bias is None


def conv2d_loops(x, w, b, stride, padding, dilation, groups):
    n, _, h, wd = x.shape
    o, cg, kh, kw = w.shape
    (sh, sw), (ph, pw), (dh, dw) = stride, padding, dilation
    xp = np.pad(x.astype("float64"), ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    oh, ow = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (wd + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    out = np.zeros((n, o, oh, ow))
    for oc in range(o):
        g = oc // (o // groups)
        for i in range(oh):
            for j in range(ow):
                patch = xp[:, g * cg : (g + 1) * cg, i * sh : i * sh + dh * (kh - 1) + 1 : dh, j * sw : j * sw + dw * (kw - 1) + 1 : dw]
                out[:, oc, i, j] = (patch * w[oc]).sum((1, 2, 3))
    return out + (0 if b is None else b[None, :, None, None])


@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "padding": 1}, {"dilation": (2, 1), "padding": (2, 0)}, {"groups": 2, "bias": False}]
)
def test_conv2d(rng, options):
    x = rng.standard_normal((2, 4, 7, 6)).astype("float32")
    layer = nn.Conv2d(4, 6, (3, 2), **options)
    bias = None if layer.bias is None else layer.bias.detach().numpy()
    expected = conv2d_loops(x, layer.weight.detach().numpy(), bias, layer.stride, layer.padding, layer.dilation, layer.groups)
    close(layer(flow.tensor(x)), expected, rtol=1e-4, atol=1e-5)
    close(layer(flow.tensor(x[0])), expected[0], rtol=1e-4, atol=1e-5)


def test_conv_padding_strings_and_conv1d(rng):
    x = flow.tensor(rng.standard_normal((2, 3, 8)).astype("float32"))
    layer = nn.Conv1d(3, 5, 3, padding="same")
    expected = conv2d_loops(
        x.numpy()[:, :, None], layer.weight.detach().numpy()[:, :, None], layer.bias.detach().numpy(), (1, 1), (0, 1), (1, 1), 1
    )
    close(layer(x), expected[:, :, 0], rtol=1e-4, atol=1e-5)
    assert nn.Conv2d(1, 1, 5, padding="same").padding == (2, 2) and nn.Conv2d(1, 1, 5, padding="valid").padding == (0, 0)
    with pytest.raises(ValueError, match="strided"):
        nn.Conv2d(1, 1, 3, stride=2, padding="same")
    with pytest.raises(NotImplementedError):
        nn.Conv2d(1, 1, 2, padding="same")
    with pytest.raises(ValueError, match="divisible by groups"):
        nn.Conv2d(3, 4, 1, groups=2)


def test_pooling(rng):
    x = rng.standard_normal((2, 3, 6, 8)).astype("float32")
    t = flow.tensor(x)
    windows = x.reshape(2, 3, 3, 2, 4, 2)
    close(nn.MaxPool2d(2)(t), windows.max((3, 5)), rtol=0, atol=0)
    close(nn.AvgPool2d(2)(t), windows.mean((3, 5)))
    close(nn.AdaptiveAvgPool2d((3, 4))(t), windows.mean((3, 5)))
    close(nn.AdaptiveAvgPool2d(1)(t), x.mean((2, 3), keepdims=True))
    out, indices = nn.MaxPool2d(2, return_indices=True)(t)
    np.testing.assert_array_equal(
        np.take_along_axis(x.reshape(2, 3, 48), indices.numpy().reshape(2, 3, 12), 2).reshape(out.shape), out.numpy()
    )
    rows = ((0, 2), (1, 3), (3, 5), (4, 6))  # of 6 rows in 4 windows
    close(nn.AdaptiveAvgPool2d(4)(t), np.stack([x[:, :, a:b].reshape(2, 3, b - a, 4, 2).mean((2, 4)) for a, b in rows], 2))


def test_activations(rng):
    x = np.concatenate([rng.standard_normal(50) * 3, [0.0, -0.0]]).astype("float32")
    t = flow.tensor(x)
    sig = 1 / (1 + np.exp(-x.astype("float64")))
    phi = np.array([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x.astype("float64")])
    close(nn.ReLU()(t), np.maximum(x, 0))
    close(nn.Sigmoid()(t), sig)
    close(nn.Tanh()(t), np.tanh(x))
    close(nn.SiLU()(t), x * sig)
    close(nn.GELU()(t), x * phi)
    close(nn.GELU("tanh")(t), 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x.astype("float64") ** 3))))
    close(nn.LeakyReLU(0.1)(t), np.where(x > 0, x, 0.1 * x))
    close(nn.ELU()(t), np.where(x > 0, x, np.expm1(x)))
    close(nn.ReLU6()(t * 4), np.clip(x * 4, 0, 6))
    close(nn.Softplus()(t), np.log1p(np.exp(x)))
    close(nn.LogSigmoid()(t), np.log(sig), atol=1e-5)
    e = np.exp(x.reshape(4, 13) - x.reshape(4, 13).max(1, keepdims=True))
    close(nn.Softmax(1)(t.reshape(4, 13)), e / e.sum(1, keepdims=True))
    close(nn.LogSoftmax(-1)(t.reshape(4, 13)), np.log(e / e.sum(1, keepdims=True)), rtol=1e-4)
    y = flow.tensor(x)
    assert nn.ReLU(inplace=True)(y) is y and float(y.min()) == 0.0


def test_dropout():
    x = flow.ones(10000)
    layer = nn.Dropout(0.25)
    y = layer(x).numpy()
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)} and abs((y == 0).mean() - 0.25) < 0.02
    flow.manual_seed(0)
    np.testing.assert_array_equal(layer(x).numpy(), y)
    np.testing.assert_array_equal(layer.eval()(x).numpy(), 1.0)
    assert float(F.dropout(x, 1.0).sum()) == 0.0
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(1.5)


def test_norms(rng):
    x = (rng.standard_normal((4, 3, 5, 5)) * 2 + 1).astype("float32")
    layer = nn.BatchNorm2d(3)
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    shape = (1, 3, 1, 1)
    close(layer(flow.tensor(x)), (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5), rtol=1e-4, atol=1e-5)
    close(layer.running_mean, 0.1 * mean)
    close(layer.running_var, 0.9 + 0.1 * x.var((0, 2, 3), ddof=1))
    assert layer.num_batches_tracked.item() == 1
    layer.eval()
    rm, rv = layer.running_mean.numpy().reshape(shape), layer.running_var.numpy().reshape(shape)
    close(layer(flow.tensor(x)), (x - rm) / np.sqrt(rv + 1e-5), rtol=1e-4, atol=1e-5)
    norm = nn.LayerNorm((5, 5))
    close(norm(flow.tensor(x)), (x - x.mean((2, 3), keepdims=True)) / np.sqrt(x.var((2, 3), keepdims=True) + 1e-5), rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="normalized_shape"):
        nn.LayerNorm(4)(flow.tensor(x))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm1d(3)(flow.zeros(1, 3))


def test_shapes_and_padding(rng):
    x = rng.standard_normal((2, 3, 4)).astype("float32")
    t = flow.tensor(x)
    assert tuple(nn.Flatten()(t).shape) == (2, 12) and tuple(nn.Unflatten(1, (3, 1))(t).shape) == (2, 3, 1, 4)
    assert nn.Identity()(t) is t
    np.testing.assert_array_equal(F.pad(t, (1, 2, 0, 1), value=7.0).numpy(), np.pad(x, ((0, 0), (0, 1), (1, 2)), constant_values=7.0))
    np.testing.assert_array_equal(F.pad(t, (-1, 1)).numpy(), np.pad(x, ((0, 0), (0, 0), (0, 1)))[:, :, 1:])
    np.testing.assert_array_equal(F.one_hot(flow.tensor([0, 2, 1]), 4).numpy(), np.eye(4, dtype="int64")[[0, 2, 1]])


# ----- losses ---------------------------------------------------------------------------------------------------------------------


def log_softmax(x):
    x = x.astype("float64")
    return x - x.max(1, keepdims=True) - np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy(rng, reduction, weighted, smoothing):
    x = rng.standard_normal((6, 5)).astype("float32")
    t = np.array([0, 4, -100, 2, 2, 1])
    w = rng.uniform(0.5, 2, 5).astype("float32") if weighted else np.ones(5, "float32")
    kept = t != -100
    logp, tw = log_softmax(x), np.where(kept, w[t * kept], 0)
    nll = -logp[np.arange(6), t * kept] * tw
    smooth = np.where(kept, -(logp * w).sum(1), 0)
    each = (1 - smoothing) * nll + smoothing / 5 * smooth
    expected = {"none": each, "sum": each.sum(), "mean": each.sum() / tw.sum()}[reduction]
    loss = nn.CrossEntropyLoss(weight=flow.tensor(w) if weighted else None, reduction=reduction, label_smoothing=smoothing)
    close(loss(flow.tensor(x), flow.tensor(t)), expected)


def test_cross_entropy_other_shapes(rng):
    x = rng.standard_normal((2, 3, 4, 5)).astype("float32")
    t = rng.integers(0, 3, (2, 4, 5))
    rows = x.transpose(0, 2, 3, 1).reshape(-1, 3)
    each = -log_softmax(rows)[np.arange(40), t.reshape(-1)].reshape(2, 4, 5)
    close(F.cross_entropy(flow.tensor(x), flow.tensor(t)), each.mean())
    close(F.cross_entropy(flow.tensor(x), flow.tensor(t), reduction="none"), each)
    close(F.cross_entropy(flow.tensor(rows[0]), flow.tensor(1)), -log_softmax(rows[:1])[0, 1])
    soft = np.abs(rng.standard_normal((40, 3))).astype("float32")
    close(F.cross_entropy(flow.tensor(rows), flow.tensor(soft)), -(log_softmax(rows) * soft).sum(1).mean())
    close(F.nll_loss(flow.tensor(log_softmax(rows).astype("float32")), flow.tensor(t.reshape(-1))), each.mean())
    with pytest.raises(ValueError, match="target"):
        F.cross_entropy(flow.tensor(x), flow.tensor(t[:, :, :2]))


def test_elementwise_losses(rng):
    a, b = rng.standard_normal((2, 7)).astype("float32"), rng.standard_normal((2, 7)).astype("float32")
    ta, tb, d = flow.tensor(a), flow.tensor(b), a - b
    close(nn.MSELoss()(ta, tb), (d**2).mean())
    close(nn.L1Loss(reduction="sum")(ta, tb), np.abs(d).sum())
    close(nn.SmoothL1Loss()(ta, tb), np.where(np.abs(d) < 1, d * d / 2, np.abs(d) - 0.5).mean())
    close(nn.HuberLoss(delta=0.5, reduction="none")(ta, tb), np.where(np.abs(d) <= 0.5, d * d / 2, 0.5 * (np.abs(d) - 0.25)))
    p, t = 1 / (1 + np.exp(-a)), (b > 0).astype("float32")
    bce = -(t * np.log(p) + (1 - t) * np.log(1 - p))
    close(nn.BCELoss()(flow.tensor(p), flow.tensor(t)), bce.mean(), rtol=1e-4)
    close(nn.BCEWithLogitsLoss()(ta, flow.tensor(t)), bce.mean(), rtol=1e-4)
    assert np.isfinite(float(nn.BCEWithLogitsLoss()(flow.tensor([1e4, -1e4]), flow.tensor([0.0, 1.0]))))
    with pytest.raises(ValueError, match="Target size"):
        nn.BCEWithLogitsLoss()(ta, flow.tensor(t[0]))
    with pytest.raises(ValueError, match="reduction"):
        nn.MSELoss(reduction="avg")
    with pytest.warns(UserWarning, match="broadcast"):
        F.mse_loss(ta, tb[:1])


# ----- initial values and helpers ---------------------------------------------------------------------------------------------------


def test_init():
    w = flow.empty(64, 32, 3, 3)
    fan_in, fan_out = 32 * 9, 64 * 9
    bound = math.sqrt(6.0 / (fan_in + fan_out))
    v = nn.init.xavier_uniform_(w).numpy()
    assert abs(v).max() <= bound and abs(abs(v).max() - bound) < 0.01 * bound
    assert abs(nn.init.kaiming_normal_(w, nonlinearity="relu").numpy().std() - math.sqrt(2 / fan_in)) < 0.02 * math.sqrt(2 / fan_in)
    assert abs(nn.init.kaiming_uniform_(w, a=math.sqrt(5)).numpy()).max() <= 1 / math.sqrt(fan_in)
    np.testing.assert_array_equal(nn.init.eye_(flow.empty(2, 3)).numpy(), np.eye(2, 3))
    assert float(nn.init.constant_(flow.empty(3), 2.5).sum()) == 7.5
    assert abs(nn.init.trunc_normal_(flow.empty(1000), std=2.0, a=-1.0, b=1.0).numpy()).max() <= 1.0
    assert nn.init.calculate_gain("tanh") == 5 / 3 and nn.init.calculate_gain("relu") == math.sqrt(2)
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_uniform_(flow.empty(3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        nn.init.calculate_gain("gelu?")
    flow.manual_seed(5)
    a = nn.Linear(4, 4).weight.detach().numpy().copy()
    flow.manual_seed(5)
    np.testing.assert_array_equal(nn.Linear(4, 4).weight.detach().numpy(), a)


def test_clip_and_vectors():
    a, b = nn.Parameter(flow.zeros(2)), nn.Parameter(flow.zeros(1, 2))
    a.grad, b.grad = flow.tensor([3.0, 0.0]), flow.tensor([[0.0, 4.0]])
    total = nn.utils.clip_grad_norm_([a, b], 1.0)
    assert abs(float(total) - 5.0) < 1e-6
    close(a.grad, [0.6, 0.0]), close(b.grad, [[0.0, 0.8]])
    nn.utils.clip_grad_norm_([a, b], 10.0)
    close(a.grad, [0.6, 0.0])
    nn.utils.clip_grad_value_([a, b], 0.5)
    close(b.grad, [[0.0, 0.5]])
    vector = nn.utils.parameters_to_vector([a, b])
    assert tuple(vector.shape) == (4,)
    nn.utils.vector_to_parameters(flow.tensor([1.0, 2.0, 3.0, 4.0]), [a, b])
    close(b, [[3.0, 4.0]])
    with pytest.raises(ValueError, match="vec"):
        nn.utils.vector_to_parameters(flow.zeros(3), [a, b])
