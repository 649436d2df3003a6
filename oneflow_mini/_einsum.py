"""einsum by matmul: operands are contracted from left to right, two at a time."""

from __future__ import annotations

from typing import Any

from . import _C


def _parse(equation: str, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """Labels of each operand and of the result; an ellipsis becomes labels "0", "1", … counted from the last dimension it covers."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"[einsum] equation: got {len(terms)} terms in {equation!r}, expected one for each of {len(ranks)} operands")
    covered = [max(0, rank - len(t.replace("...", ""))) for t, rank in zip(terms, ranks, strict=True) if "..." in t]
    widest = max(covered, default=0)

    def labels(term: str, rank: int | None) -> list[str]:
        before, dots, after = term.partition("...")
        if not all(c.isascii() and c.isalpha() for c in before + after):
            raise ValueError(f"[einsum] equation: got {term!r} in {equation!r}, expected letters and at most one '...'")
        count = widest if rank is None else rank - len(before) - len(after)
        if count < 0 or (count and not dots and rank is not None):
            raise ValueError(f"[einsum] equation: got {term!r} for an operand of {rank} dimensions")
        return [*before, *([str(i) for i in reversed(range(count))] if dots else []), *after]

    inputs = [labels(t, r) for t, r in zip(terms, ranks, strict=True)]
    if arrow:
        output = labels(right, None)
    else:
        flat = [c for labels_ in inputs for c in labels_]
        output = [str(i) for i in reversed(range(widest))] + sorted({c for c in flat if c.isalpha() and flat.count(c) == 1})
    if len(set(output)) != len(output) or any(c not in {x for i in inputs for x in i} for c in output):
        raise ValueError(f"[einsum] equation: got output {right!r} in {equation!r}, expected labels of the inputs, none twice")
    return inputs, output


def _diagonals(tensor: Any, labels: list[str]) -> tuple[Any, list[str]]:
    """A label that stands twice means the diagonal."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            a = labels.index(label)
            b = labels.index(label, a + 1)
            tensor = tensor.diagonal(0, a, b)
            labels = [c for i, c in enumerate(labels) if i not in (a, b)] + [label]
    return tensor, labels


def _sum_out(tensor: Any, labels: list[str], keep: set[str]) -> tuple[Any, list[str]]:
    gone = [i for i, c in enumerate(labels) if c not in keep]
    return (_C.sum(tensor, gone), [c for c in labels if c in keep]) if gone else (tensor, labels)


def _contract(a: Any, la: list[str], b: Any, lb: list[str], keep: set[str]) -> tuple[Any, list[str]]:
    """Sum over the labels that both have and nobody needs any more: one batched matmul."""
    a, la = _sum_out(a, la, keep | set(lb))
    b, lb = _sum_out(b, lb, keep | set(la))
    shared = [c for c in la if c in lb]
    size = dict(zip(la, a.shape, strict=True))
    for c, n in zip(lb, b.shape, strict=True):
        if size.get(c, n) not in (n, 1) and n != 1:
            raise ValueError(f"[einsum] label {c!r}: got sizes {size[c]} and {n}")
        size[c] = max(size.get(c, 1), n) if n and size.get(c, 1) else 0
    summed, batch = [c for c in shared if c not in keep], [c for c in shared if c in keep]
    rows, columns = [c for c in la if c not in lb], [c for c in lb if c not in la]

    def arranged(t: Any, labels: list[str], groups: list[list[str]]) -> Any:
        flat = [c for g in groups for c in g]
        t = t.permute(*[labels.index(c) for c in flat]) if flat else t
        t = t.expand(*[size[c] for c in flat]) if flat else t
        return t.reshape(*[_product(size[c] for c in g) for g in groups])

    product = _C.bmm(arranged(a, la, [batch, rows, summed]), arranged(b, lb, [batch, summed, columns]))
    out = [*batch, *rows, *columns]
    return product.reshape(*[size[c] for c in out]) if out else product.reshape(()), out


def _product(sizes: Any) -> int:
    n = 1
    for s in sizes:
        n *= s
    return n


def einsum(equation: str, *operands: Any) -> Any:
    """Sums of products by labels: ``einsum("bij,bjk->bik", x, y)``. Without "->" the labels that stand once, sorted, are the result's."""
    given = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    for t in given:
        if not isinstance(t, _C.Tensor):
            raise TypeError(f"[einsum] operands: got {type(t).__name__}, expected Tensors")
    inputs, output = _parse(equation, [t.ndim for t in given])
    parts = [_diagonals(t, labels) for t, labels in zip(given, inputs, strict=True)]
    tensor, labels = parts[0]
    for i, (other, other_labels) in enumerate(parts[1:], 1):
        later = {c for _, rest in parts[i + 1 :] for c in rest}
        tensor, labels = _contract(tensor, labels, other, other_labels, later | set(output))
    tensor, labels = _sum_out(tensor, labels, set(output))
    return tensor.permute(*[labels.index(c) for c in output]) if output else tensor
