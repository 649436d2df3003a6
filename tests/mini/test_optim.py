"""Optimizers against their formulas in numpy (docs/numerics.md section 11), bit for bit; schedules against closed forms."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import oneflow_mini as flow
from oneflow_mini import nn, optim
from oneflow_mini.optim import lr_scheduler as lrs
from oneflow_mini.optim.adam import beta_power

f32 = np.float32
STEPS = 4


def parameter(values):
    return nn.Parameter(flow.tensor(values))


def gradients(rng, shape):
    return [rng.standard_normal(shape).astype("float32") for _ in range(STEPS)]


def sgd_reference(p, grads, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False):
    """Every operation rounded to f32."""
    b = None
    for g in grads:
        d = -g if maximize else g
        if weight_decay:
            d = d + f32(weight_decay) * p
        if momentum:
            b = d if b is None else f32(momentum) * b + (f32(1) - f32(dampening)) * d
            d = d + f32(momentum) * b if nesterov else b
        p = p - f32(lr) * d
    return p, b


def adam_reference(p, grads, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, maximize=False, decoupled=False):
    m = v = vmax = np.zeros_like(p)
    b1, b2 = f32(betas[0]), f32(betas[1])
    for t, g in enumerate(grads, 1):
        g = -g if maximize else g
        if weight_decay and decoupled:
            p = p * (f32(1) - f32(lr) * f32(weight_decay))
        elif weight_decay:
            g = g + f32(weight_decay) * p
        m = b1 * m + (f32(1) - b1) * g
        v = b2 * v + ((f32(1) - b2) * g) * g
        s = vmax = np.maximum(vmax, v) if amsgrad else v
        denom = np.sqrt(s) / f32(math.sqrt(1 - beta_power(betas[1], t))) + f32(eps)
        p = p - (f32(lr) / f32(1 - beta_power(betas[0], t))) * (m / denom)
    return p, m, v


def run(optimizer, p, grads):
    for g in grads:
        p.grad = flow.tensor(g)
        optimizer.step()
    return p.detach().numpy()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.3},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        {"weight_decay": 0.1, "maximize": True},
    ],
)
def test_sgd_bits(rng, options):
    start, grads = rng.standard_normal((5, 7)).astype("float32"), gradients(rng, (5, 7))
    p = parameter(start)
    got = run(optim.SGD([p], lr=0.1, **options), p, grads)
    np.testing.assert_array_equal(got, sgd_reference(start, grads, 0.1, **options)[0])


@pytest.mark.parametrize(
    "cls, options",
    [
        (optim.Adam, {}),
        (optim.Adam, {"weight_decay": 0.1, "betas": (0.8, 0.95)}),
        (optim.Adam, {"amsgrad": True, "eps": 1e-3}),
        (optim.Adam, {"maximize": True}),
        (optim.AdamW, {}),
        (optim.AdamW, {"weight_decay": 0.1, "amsgrad": True}),
    ],
)
def test_adam_bits(rng, cls, options):
    start, grads = rng.standard_normal((5, 7)).astype("float32"), gradients(rng, (5, 7))
    p = parameter(start)
    got = run(cls([p], lr=0.01, **options), p, grads)
    reference = dict(options)
    if cls is optim.AdamW:
        reference.setdefault("weight_decay", 1e-2)
        reference["decoupled"] = True
    np.testing.assert_array_equal(got, adam_reference(start, grads, 0.01, **reference)[0])


def test_beta_power_is_repeated_squaring():
    assert beta_power(0.9, 0) == 1.0 and beta_power(0.5, 10) == 0.5**10
    assert beta_power(0.9, 5) == 0.9 * ((0.9 * 0.9) * (0.9 * 0.9))
    for t in (1, 7, 1000, 123456):
        assert math.isclose(beta_power(0.999, t), 0.999**t, rel_tol=1e-10)


def test_groups_missing_gradients_and_zero_grad():
    a, b, c = parameter([1.0]), parameter([1.0]), parameter([1.0])
    optimizer = optim.SGD([{"params": [a]}, {"params": [b, c], "lr": 0.5}], lr=0.1)
    for p in (a, b):
        p.grad = flow.ones(1)
    optimizer.step()
    assert [round(float(p.detach()), 6) for p in (a, b, c)] == [0.9, 0.5, 1.0]
    optimizer.zero_grad(set_to_none=False)
    assert float(a.grad) == 0.0 and c.grad is None
    optimizer.zero_grad()
    assert a.grad is None
    assert "Parameter Group 1" in repr(optimizer)


def test_closure_runs_with_gradients_on():
    p = parameter([2.0])
    optimizer = optim.SGD([p], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with flow.no_grad():
        loss = optimizer.step(closure)
    assert float(loss.detach()) == 4.0 and float(p.detach()) == 1.0


@pytest.mark.parametrize("cls, options", [(optim.SGD, {"momentum": 0.9}), (optim.Adam, {"amsgrad": True}), (optim.AdamW, {})])
def test_state_dict_resumes_bit_for_bit(rng, tmp_path, cls, options):
    start, grads = rng.standard_normal(6).astype("float32"), gradients(rng, (6,))
    p = parameter(start)
    whole = run(cls([p], lr=0.1, **options), p, grads)
    a = parameter(start)
    first = cls([a], lr=0.1, **options)
    run(first, a, grads[:2])
    flow.save({"model": {"p": a.detach()}, "optimizer": first.state_dict()}, tmp_path / "checkpoint")
    saved = flow.load(tmp_path / "checkpoint")
    b = parameter(saved["model"]["p"])
    second = cls([b], lr=9.0, **options)
    second.load_state_dict(saved["optimizer"])
    assert second.param_groups[0]["lr"] == 0.1
    np.testing.assert_array_equal(run(second, b, grads[2:]), whole)


def test_load_state_dict_refuses_other_shapes():
    p, q = parameter([1.0, 2.0]), parameter([1.0])
    a, b = optim.SGD([p], lr=0.1, momentum=0.9), optim.SGD([q], lr=0.1, momentum=0.9)
    p.grad = flow.ones(2)
    a.step()
    state = copy.deepcopy(a.state_dict())
    with pytest.raises(ValueError, match="momentum_buffer"):
        b.load_state_dict(state)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        b.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="size of optimizer's group"):
        b.load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]})


def test_bad_arguments():
    p = parameter([1.0])
    with pytest.raises(ValueError, match="empty parameter list"):
        optim.SGD([], lr=0.1)
    with pytest.raises(TypeError, match="iterable of Tensors"):
        optim.SGD(p, lr=0.1)
    with pytest.raises(TypeError, match="only optimize Tensors"):
        optim.SGD([1.0], lr=0.1)
    with pytest.raises(ValueError, match="non-leaf"):
        optim.SGD([p * 2], lr=0.1)
    with pytest.raises(ValueError, match="lr"):
        optim.SGD([p], lr=-1)
    with pytest.raises(ValueError, match="lr"):
        optim.SGD([p], lr=float("nan"))
    with pytest.raises(ValueError, match="Nesterov"):
        optim.SGD([p], lr=0.1, nesterov=True)
    with pytest.raises(ValueError, match="beta parameter at index 1"):
        optim.Adam([p], betas=(0.9, 1.0))
    with pytest.raises(ValueError, match="more than one parameter group"):
        optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1)
    with pytest.raises(ValueError, match="option 'momentun'"):
        optim.SGD([{"params": [p], "momentun": 0.9}], lr=0.1)
    with pytest.raises(NotImplementedError):
        optim.Adam([p], capturable=True)


def test_bits_don_t_depend_on_other_parameters(rng):
    start, grads = rng.standard_normal(3).astype("float32"), gradients(rng, (3,))
    alone, together, other = parameter(start), parameter(start), parameter(np.ones(1000, "float32"))
    optimizer = optim.Adam([other, together])
    for g in grads:
        together.grad, other.grad = flow.tensor(g), flow.ones(1000)
        optimizer.step()
    np.testing.assert_array_equal(together.detach().numpy(), run(optim.Adam([alone]), alone, grads))


# ----- schedules ------------------------------------------------------------------------------------------------------------------


def rates(make, epochs=8, lr=0.1):
    p = parameter([1.0])
    optimizer = optim.SGD([p], lr=lr)
    schedule = make(optimizer)
    out = []
    for _ in range(epochs):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return out


@pytest.mark.parametrize(
    "make, rate",
    [
        (lambda o: lrs.StepLR(o, 3, 0.5), lambda e: 0.1 * 0.5 ** (e // 3)),
        (lambda o: lrs.MultiStepLR(o, [2, 5], 0.1), lambda e: 0.1 * 0.1 ** ((e >= 2) + (e >= 5))),
        (lambda o: lrs.ExponentialLR(o, 0.9), lambda e: 0.1 * 0.9**e),
        (lambda o: lrs.ConstantLR(o, 0.5, 3), lambda e: 0.05 if e < 3 else 0.1),
        (lambda o: lrs.LinearLR(o, 0.5, 1.0, 4), lambda e: 0.1 * (0.5 + 0.5 * min(e, 4) / 4)),
        (lambda o: lrs.CosineAnnealingLR(o, 6, 0.01), lambda e: 0.01 + 0.09 * (1 + math.cos(math.pi * e / 6)) / 2),
        (lambda o: lrs.LambdaLR(o, lambda e: 1 / (e + 1)), lambda e: 0.1 / (e + 1)),
        (lambda o: lrs.MultiplicativeLR(o, lambda e: 0.5), lambda e: 0.1 * 0.5**e),
        (
            lambda o: lrs.SequentialLR(o, [lrs.ConstantLR(o, 0.1, 100), lrs.ExponentialLR(o, 0.5)], [3]),
            lambda e: 0.01 if e < 3 else 0.1 * 0.5 ** (e - 3),
        ),
    ],
)
def test_schedules(make, rate):
    np.testing.assert_allclose(rates(make), [rate(e) for e in range(8)], rtol=1e-12)


def test_one_cycle():
    got = rates(lambda o: lrs.OneCycleLR(o, max_lr=1.0, total_steps=10, pct_start=0.3), epochs=9)
    assert math.isclose(got[0], 0.04) and math.isclose(got[2], 1.0) and max(got) == got[2]
    assert all(a > b for a, b in zip(got[2:], got[3:], strict=False))  # noqa: RUF007
    with pytest.raises(ValueError, match="Tried to step"):
        rates(lambda o: lrs.OneCycleLR(o, max_lr=1.0, total_steps=3), epochs=5)


def test_plateau():
    optimizer = optim.SGD([parameter([1.0])], lr=1.0)
    schedule = lrs.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    for metric in (1.0, 0.5, 0.5, 0.5, flow.tensor(0.5), 0.5):
        schedule.step(metric)
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_scheduler_state_and_warning():
    optimizer = optim.SGD([parameter([1.0])], lr=0.1)
    schedule = lrs.StepLR(optimizer, 1, 0.5)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    again = lrs.StepLR(optim.SGD([parameter([1.0])], lr=0.1), 7)
    again.load_state_dict(schedule.state_dict())
    assert again.last_epoch == 1 and again.step_size == 1 and again.get_last_lr() == [0.05]


def test_training_fits_a_line(rng):
    x = rng.standard_normal((64, 1)).astype("float32")
    y = flow.tensor(3 * x - 1)
    model = nn.Linear(1, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(flow.tensor(x)), y)
        loss.backward()
        optimizer.step()
    assert abs(float(model.weight.detach()) - 3) < 1e-3 and abs(float(model.bias.detach()) + 1) < 1e-3
