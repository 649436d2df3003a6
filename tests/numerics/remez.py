"""Near-minimax polynomials: the tool that made the coefficients in hal/include/hal/numerics (not a test).

minimax() fits f(x) ~ P(x) under a weight by Lawson's iteratively reweighted least squares (C. Lawson, 1961) on a
Chebyshev grid, in 200-bit arithmetic; unlike the Remez exchange it copes with coefficients held fixed.
fit_rounded() rounds the leading coefficients to the target format one by one, refitting the rest after each.
"""
import mpmath as mp
import numpy as np

mp.mp.prec = 200


def grid(a, b, n):
    """n Chebyshev points of [a, b], ascending."""
    a, b = mp.mpf(a), mp.mpf(b)
    return [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]


def minimax(f, w, a, b, deg, fixed=(), iters=12, density=6):
    """Coefficients (lowest first) of P with P[:len(fixed)] given that about minimise max |w (P - f)|; and that error."""
    fixed, k0 = list(fixed), len(fixed)
    m = deg + 1 - k0
    xs = grid(a, b, density * (deg + 3))
    ws = [w(x) for x in xs]
    base = [mp.polyval(fixed[::-1], x) if fixed else mp.mpf(0) for x in xs]
    rhs = [wi * (f(x) - bi) for wi, x, bi in zip(ws, xs, base)]
    rows = [[wi * x ** (k0 + j) for j in range(m)] for wi, x in zip(ws, xs)]
    if m == 0:
        return fixed, max(abs(r) for r in rhs)
    lam, best = [mp.mpf(1)] * len(xs), None
    for _ in range(iters):
        A = mp.matrix(m, m)
        v = mp.matrix(m, 1)
        for l, row, r in zip(lam, rows, rhs):
            for i in range(m):
                t = l * row[i]
                v[i] += t * r
                for j in range(i, m):
                    A[i, j] += t * row[j]
        for i in range(m):
            for j in range(i):
                A[i, j] = A[j, i]
        c = mp.lu_solve(A, v)
        e = [abs(sum(row[j] * c[j] for j in range(m)) - r) for row, r in zip(rows, rhs)]
        err = max(e)
        if best is None or err < best[1]:
            best = ([c[j] for j in range(m)], err)
        lam = [l * (x / err + mp.mpf("1e-6")) for l, x in zip(lam, e)]
        s = sum(lam) / len(lam)
        lam = [l / s for l in lam]
    return fixed + best[0], best[1]


def rnd(c, bits):
    with mp.workprec(bits):
        return +mp.mpf(c)


def fit_rounded(f, w, a, b, deg, bits, nfix=2, fixed=()):
    """(rounded coefficients, error before rounding, error after)."""
    fixed, e0 = list(fixed), None
    for _ in range(nfix):
        c, err = minimax(f, w, a, b, deg, fixed)
        e0 = e0 or err
        fixed.append(rnd(c[len(fixed)], bits))
    c, err = minimax(f, w, a, b, deg, fixed)
    e0 = e0 or err
    c = [rnd(v, bits) for v in c]
    err = max(abs(w(x) * (mp.polyval(c[::-1], x) - f(x))) for x in grid(a, b, 400))
    return c, e0, err


def show(name, c, bits, e0, err):
    """Prints the coefficients as C literals (hexadecimal: exact)."""
    suffix = "f" if bits == 24 else ""
    lg = lambda e: float(mp.log(e, 2)) if e else 0.0
    print(f"/* {name}: 2^{lg(e0):.1f}, rounded 2^{lg(err):.1f} */")
    for v in c:
        if bits == 24:
            print("   ", np.format_float_scientific(np.float32(float(v)), unique=True) + suffix, f"/* {mp.nstr(v, 9)} */")
        else:
            print("   ", repr(float(v)), f"/* {mp.nstr(v, 9)} */")
