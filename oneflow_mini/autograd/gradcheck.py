"""Gradients against central differences, first and second order, in f64."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C

Tensor = _C.Tensor


class GradcheckError(RuntimeError):
    """An analytical gradient differs from the finite difference, or isn't deterministic."""


def _outputs(value: Any) -> list[Any]:
    items = [value] if isinstance(value, Tensor) else list(value)
    return [t for t in items if isinstance(t, Tensor) and t.is_floating_point()]


def _host(t: Any) -> Any:
    return t.detach().cpu().numpy()


def _numerical(func: Callable[..., Any], inputs: Sequence[Any], which: int, eps: float) -> list[Any]:
    """Jacobians (input elements × output elements), one per output, of input ``which``."""
    import numpy as np

    source = inputs[which]
    base = np.array(_host(source), order="C")
    columns: list[list[Any]] = []
    for k in range(base.size):
        sides = []
        for sign in (1.0, -1.0):
            moved = base.copy()
            moved.reshape(-1)[k] += sign * eps
            args = list(inputs)
            args[which] = _C.tensor(moved, dtype=source.dtype, device=source.device, requires_grad=True)
            sides.append([_host(o).reshape(-1).copy() for o in _outputs(func(*args))])
        columns.append([(plus - minus) / (2 * eps) for plus, minus in zip(*sides, strict=False)])
    count = len(columns[0]) if columns else 0
    return [np.stack([c[o] for c in columns]) for o in range(count)]


def _analytical(outputs: Sequence[Any], inputs: Sequence[Any], wanted: Sequence[int]) -> list[list[Any]]:
    """jacobians[output][input] by one backward pass per output element."""
    import numpy as np

    sources = [inputs[i] for i in wanted]
    result = []
    for out in outputs:
        size = out.numel()
        jacobians = [np.zeros((s.numel(), size)) for s in sources]
        for k in range(size if out.requires_grad else 0):
            seed = np.zeros(size, dtype=_host(out).dtype)
            seed[k] = 1
            g = _C.tensor(seed.reshape(tuple(out.shape)), dtype=out.dtype, device=out.device)
            grads = _C.run_backward([out], [g], True, False, sources, True, False)
            for j, value in zip(jacobians, grads, strict=False):
                if value is not None:
                    j[:, k] = _host(value).reshape(-1)
        result.append(jacobians)
    return result


def _worst(b: Any, a: Any, a_name: str, b_name: str) -> str:
    """The element where a and b differ most."""
    import numpy as np

    with np.errstate(all="ignore"):
        difference = np.nan_to_num(np.abs(a - b), nan=np.inf)
    row, column = np.unravel_index(int(difference.argmax()), difference.shape)
    return (
        f"d output[{column}] / d input[{row}] (row-major): {a_name} {a[row, column]!r}, {b_name} {b[row, column]!r}, "
        f"{int((difference > 0).sum())} of {a.size} elements differ"
    )


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:
    """Compares func's gradients with (f(x + eps) − f(x − eps)) / 2eps, element by element: |a − n| ≤ atol + rtol·|n|.

    Inputs that require grad should be f64 (a warning otherwise). Also checks that two backward passes give gradients within nondet_tol.
    """
    import numpy as np

    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    wanted = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not wanted:
        raise ValueError("[gradcheck] inputs: got none that requires grad, expected at least one f64 tensor with requires_grad=True")
    for i in wanted:
        if inputs[i].dtype != _C.float64:
            warnings.warn(f"[gradcheck] inputs[{i}] is {inputs[i].dtype!r}, not float64: the check will likely fail", stacklevel=2)
    outputs = _outputs(func(*inputs))
    first = _analytical(outputs, inputs, wanted)
    again = _analytical(outputs, inputs, wanted)

    def fail(text: str) -> bool:
        if raise_exception:
            raise GradcheckError(text)
        return False

    for place, i in enumerate(wanted):
        numerical = _numerical(func, inputs, i, eps)
        for o in range(len(outputs)):
            a, n, b = first[o][place], numerical[o] if numerical else first[o][place], again[o][place]
            if not np.allclose(a, b, rtol=0.0, atol=nondet_tol, equal_nan=True):
                return fail(f"Backward is not reentrant for output {o} with respect to input {i}: {_worst(b, a, 'first', 'then')}")
            if not np.allclose(a, n, rtol=rtol, atol=atol):
                return fail(f"Jacobian mismatch for output {o} with respect to input {i}: {_worst(n, a, 'analytical', 'numerical')}")
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:
    """gradcheck of func's gradient, as a function of the inputs and of ``grad_outputs`` (default: random, requiring grad)."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = _outputs(func(*inputs))
    if grad_outputs is None:
        seeds = tuple(
            _C.randn(tuple(o.shape), dtype=o.dtype, device=o.device, generator=_C.Generator().manual_seed(7 + i), requires_grad=True)
            for i, o in enumerate(outputs)
        )
    else:
        seeds = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    count = len(seeds)

    def gradient(*args: Any) -> Any:
        values, gs = args[:-count], args[-count:]
        sources = [v for v, original in zip(values, inputs, strict=False) if isinstance(original, Tensor) and original.requires_grad]
        pairs = [(o, g) for o, g in zip(_outputs(func(*values)), gs, strict=False) if o.requires_grad]
        grads = _C.run_backward([o for o, _ in pairs], [g for _, g in pairs], True, True, sources, True, False)
        return tuple(g for g in grads if g is not None)

    return gradcheck(gradient, inputs + seeds, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol)
