"""The shared functions, compiled as C11 and as C++17, at three optimisation levels: error against mpmath, special values,
casts, 16-bit formats, integer corners, random numbers, and that all builds give the same bits.

The exhaustive measurement over all 2^32 inputs is ulp_check.sh (minutes per function), not part of this test."""
import ctypes
import itertools
import pathlib
import shutil
import subprocess

import ml_dtypes
import mpmath as mp
import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "hal" / "include"
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off", "-fPIC", "-shared", f"-I{INCLUDE}"]
FAST = ["-O3", "-fno-math-errno", "-fno-trapping-math"]
BUILDS = {
    "c11-O0": ["gcc", "-std=c11", "-O0"],
    "c++17-O2": ["g++", "-std=c++17", "-O2", "-x", "c++"],
    "c++17-avx2": ["g++", "-std=c++17", *FAST, "-mavx2", "-mfma", "-x", "c++"],
}
F = {"f32": np.float32, "f64": np.float64}
U = {"f32": np.uint32, "f64": np.uint64}
INTS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8}


def has_avx2():
    try:
        flags = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return " avx2" in flags and " fma" in flags


@pytest.fixture(scope="session")
def libs(tmp_path_factory):
    if not (shutil.which("gcc") and shutil.which("g++")):
        pytest.skip("needs gcc and g++")
    folder = tmp_path_factory.mktemp("numerics")
    out = {}
    for name, cmd in BUILDS.items():
        if "avx2" in name and not has_avx2():
            continue
        so = folder / (name.replace("+", "p") + ".so")
        subprocess.run([*cmd, *STRICT, str(HERE / "functions.c"), "-o", str(so), "-lm"], check=True)
        out[name] = ctypes.CDLL(str(so))
    return out


@pytest.fixture(scope="session")
def lib(libs):
    return libs["c++17-O2"]


def call(lib, name, *args, out):
    args = [np.ascontiguousarray(a) for a in args]
    r = np.empty(args[0].shape, out)
    getattr(lib, "v_" + name)(*(a.ctypes.data_as(ctypes.c_void_p) for a in (*args, r)), ctypes.c_long(r.size))
    return r


# ---- accuracy ----

def quiet(f):
    def g(*x):
        try:
            return f(*x)
        except (ValueError, ZeroDivisionError):
            return mp.nan
    return g


def c(x):
    """Far past every overflow and underflow, so that mpmath need not form exp(1e300)."""
    return max(min(x, mp.mpf(3000)), mp.mpf(-3000))


def m_log1p(x):
    return mp.log1p(x) if x > -1 else (-mp.inf if x == -1 else mp.nan)


def m_erfinv(x):
    return mp.erfinv(x) if abs(x) < 1 else mp.sign(x) * mp.inf if abs(x) == 1 else mp.nan


def m_gelu(x):
    return x * mp.erfc(-x / mp.sqrt(2)) / 2 if abs(x) < 60 else max(x, mp.mpf(0))


def m_pow(x, y):
    r = mp.power(abs(x), y)
    return -r if x < 0 and int(y) % 2 else r


REF = {  # name: (reference, limit f32, limit f64, interval of most samples)
    "exp": (lambda x: mp.exp(c(x)), 1, 1, (-105, 89)),
    "exp2": (lambda x: mp.power(2, c(x)), 1, 1, (-151, 129)),
    "expm1": (lambda x: mp.expm1(c(x)), 1, 1, (-20, 89)),
    "log": (mp.log, 1, 1, (0, 4)),
    "log2": (lambda x: mp.log(x) / mp.log(2), 1, 1, (0, 4)),
    "log10": (lambda x: mp.log(x) / mp.log(10), 1, 1, (0, 4)),
    "log1p": (m_log1p, 1, 1, (-1, 4)),
    "sin": (mp.sin, 1, 1, (-100, 100)),
    "cos": (mp.cos, 1, 1, (-100, 100)),
    "tan": (mp.tan, 1, 1, (-100, 100)),
    "sinpi": (mp.sinpi, 1, 1, (-4, 4)),
    "cospi": (mp.cospi, 1, 1, (-4, 4)),
    "atan": (mp.atan, 1, 1, (-4, 4)),
    "asin": (lambda x: mp.asin(x) if abs(x) <= 1 else mp.nan, 1, 1, (-1, 1)),
    "acos": (lambda x: mp.acos(x) if abs(x) <= 1 else mp.nan, 1, 1, (-1, 1)),
    "tanh": (lambda x: mp.tanh(c(x)), 1, 1, (-10, 10)),
    "sinh": (lambda x: mp.sinh(c(x)), 1, 1, (-89, 89)),
    "cosh": (lambda x: mp.cosh(c(x)), 1, 1, (-89, 89)),
    "erf": (lambda x: mp.erf(max(min(x, 60), -60)), 1, 1, (-5, 5)),
    "erfc": (lambda x: mp.erfc(max(min(x, 60), -60)), 4, 4, (-3, 10)),
    "erfinv": (m_erfinv, 6, 6, (-1, 1)),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), 1.5, 1.5, (0, 4)),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-c(x))), 3, 3, (-104, 20)),
    "silu": (lambda x: x / (1 + mp.exp(-c(x))), 4, 4, (-104, 20)),
    "gelu": (m_gelu, 6.5, 5, (-15, 5)),
    "gelu_tanh": (lambda x: x / (1 + mp.exp(-c(x * mp.sqrt(8 / mp.pi) * (1 + mp.mpf("0.044715") * x * x)))), 4, 4, (-11, 5)),
    "softplus": (lambda x: max(x, 0) + mp.log1p(mp.exp(-c(abs(x)))), 2, 2, (-104, 20)),
}
ONLY_POSITIVE = {"log", "log2", "log10", "rsqrt"}


def samples(name, t, n):
    rng = np.random.default_rng(list(name.encode()))
    ft, ut = F[t], U[t]
    lo, hi = REF[name][3]
    uniform = rng.uniform(lo, hi, n).astype(ft)
    small = (rng.uniform(-1, 1, n // 4) * 2.0 ** rng.integers(-60, 2, n // 4)).astype(ft)
    near1 = (1 + rng.uniform(-1, 1, n // 8) * 2.0 ** rng.integers(-24, -1, n // 8)).astype(ft)
    info = np.finfo(ft)
    bits = np.frombuffer(rng.bytes(n // 4 * np.dtype(ut).itemsize), ut).view(ft)
    edge = np.array([info.tiny, info.smallest_subnormal, 3 * info.smallest_subnormal, info.tiny / 2, info.max, info.max / 3,
                     1, 0.5, 2, 88.7, 709.7, 1e5, 1e10, 1e22], ft)
    x = np.concatenate([uniform, small, near1, -near1, bits, edge, -edge])
    if name in ONLY_POSITIVE:
        x = np.abs(x)
    return x[np.isfinite(x) & (x != 0)]


def ulp_errors(got, ref, t):
    """|got - ref| in units in the last place of ref; an infinity counts as the first power of two that overflows."""
    p, emin, emax = (24, -126, 128) if t == "f32" else (53, -1022, 1024)
    big = mp.mpf(2) ** emax
    out = []
    for g, r in zip(got, ref):
        if mp.isnan(r) or g != g:
            out.append(0.0 if mp.isnan(r) and g != g else np.inf)
            continue
        r = max(min(r, big), -big)
        g = mp.mpf(float(g)) if np.isfinite(g) else (big if g > 0 else -big)
        e = emin if r == 0 else max(min(mp.frexp(r)[1] - 1, emax - 1), emin)
        out.append(float(abs(g - r) / mp.mpf(2) ** (e - p + 1)))
    return np.array(out)


@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(REF))
def test_accuracy(lib, name, t):
    f, l32, l64, _ = REF[name]
    x = samples(name, t, 240 if name in ("erfinv", "erfc", "gelu") else 480)
    got = call(lib, f"{name}_{t}", x, out=F[t])
    ref = []
    for v in x:
        with mp.workprec(160 + int(abs(np.frexp(v)[1]))):  # enough digits for a huge angle, and for 1 + a tiny number
            ref.append(quiet(f)(mp.mpf(float(v))))
    err = ulp_errors(got, ref, t)
    worst = int(np.argmax(err))
    limit = l32 if t == "f32" else l64
    assert err[worst] <= limit, f"{name}_{t}({x[worst]!r}) = {got[worst]!r}: {err[worst]:.3f} ulp, limit {limit}"


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_pow_accuracy(lib, t):
    rng = np.random.default_rng(5)
    ft = F[t]
    span = 150 if t == "f32" else 1080
    x = np.concatenate([rng.uniform(0, 3, 400), 1 + rng.uniform(-1, 1, 200) * 2.0 ** rng.integers(-20, 0, 200),
                        2.0 ** rng.uniform(-120, 120, 200)]).astype(ft)
    x = x[x > 0]
    with np.errstate(divide="ignore"):
        y = (rng.uniform(-span, span, x.size) / np.log2(x.astype(np.float64))).astype(ft)
    y[::5] = np.rint(y[::5])
    x[::10] = -x[::10]
    ok = np.isfinite(y) & (np.abs(y) < 1e15)
    x, y = x[ok], y[ok]
    got = call(lib, f"pow_{t}", x, y, out=ft)
    with mp.workprec(200):
        ref = [m_pow(mp.mpf(float(a)), mp.mpf(float(b))) if a > 0 or b == np.rint(b) else mp.nan for a, b in zip(x, y)]
    assert ulp_errors(got, ref, t).max() <= 1
    n = rng.integers(-30, 31, x.size).astype(np.int32)
    got = call(lib, f"powi_{t}", x, n, out=ft)
    with mp.workprec(200):
        ref = [mp.power(mp.mpf(float(a)), int(b)) for a, b in zip(x, n)]
    assert ulp_errors(got, ref, t).max() <= 1


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_atan2_accuracy(lib, t):
    rng = np.random.default_rng(6)
    y, x = ((rng.uniform(-1, 1, 800) * 2.0 ** rng.integers(-30, 30, 800)).astype(F[t]) for _ in range(2))
    got = call(lib, f"atan2_{t}", y, x, out=F[t])
    with mp.workprec(160):
        ref = [mp.atan2(mp.mpf(float(a)), mp.mpf(float(b))) for a, b in zip(y, x)]
    assert ulp_errors(got, ref, t).max() <= 1


# ---- special values ----

INF, NAN, PI = np.inf, np.nan, np.pi
SPECIAL = {
    "exp": [(0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (800, INF), (-800, 0)],
    "exp2": [(0, 1), (INF, INF), (-INF, 0), (10, 1024), (-3, 0.125), (2000, INF)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1)],
    "log": [(0.0, -INF), (-0.0, -INF), (-1, NAN), (-INF, NAN), (INF, INF), (1, 0.0)],
    "log2": [(0.0, -INF), (-1, NAN), (INF, INF), (1, 0.0), (8, 3), (0.25, -2)],
    "log10": [(0.0, -INF), (-1, NAN), (INF, INF), (1, 0.0), (1000, 3)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1, -INF), (-2, NAN), (INF, INF)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN)],
    "sinpi": [(0.0, 0.0), (-0.0, -0.0), (1, 0.0), (-1, -0.0), (2, 0.0), (0.5, 1), (-0.5, -1), (1.5, -1), (1e30, 0.0), (INF, NAN)],
    "cospi": [(0.0, 1), (0.5, 0.0), (1.5, 0.0), (-0.5, 0.0), (1, -1), (2, 1), (1e30, 1), (INF, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1, PI / 2), (-1, -PI / 2), (1.5, NAN), (INF, NAN)],
    "acos": [(1, 0.0), (-1, PI), (0, PI / 2), (1.5, NAN), (-INF, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (50, 1)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "cosh": [(0.0, 1), (INF, INF), (-INF, INF)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1)],
    "erfc": [(0.0, 1), (INF, 0.0), (-INF, 2)],
    "erfinv": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (2, NAN)],
    "rsqrt": [(0.0, INF), (INF, 0.0), (4, 0.5), (-1, NAN)],
    "sigmoid": [(0.0, 0.5), (INF, 1), (-INF, 0.0)],
    "silu": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0)],
    "gelu": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0)],
    "gelu_tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0)],
    "softplus": [(INF, INF), (-INF, 0.0)],
    "rint": [(0.5, 0.0), (1.5, 2), (2.5, 2), (-0.5, -0.0), (-0.0, -0.0), (1e30, 1e30), (INF, INF), (-INF, -INF)],
    "floor": [(0.5, 0.0), (-0.5, -1), (-0.0, -0.0), (0.0, 0.0), (1e30, 1e30), (-INF, -INF), (2, 2)],
    "ceil": [(0.5, 1), (-0.5, -0.0), (-0.0, -0.0), (1e30, 1e30), (INF, INF), (-1.5, -1)],
    "trunc": [(0.9, 0.0), (-0.9, -0.0), (-1.9, -1), (1e30, 1e30), (-INF, -INF)],
}
SPECIAL2 = {
    "pow": [(0.0, 0.0, 1), (NAN, 0.0, 1), (1, NAN, 1), (0.0, -1, INF), (-0.0, -1, -INF), (-0.0, 3, -0.0), (-0.0, 2, 0.0),
            (-2, 3, -8), (-2, 0.5, NAN), (-1, INF, 1), (-1, -INF, 1), (0.5, INF, 0.0), (2, INF, INF), (2, -INF, 0.0), (INF, -1, 0.0),
            (-INF, 3, -INF), (-INF, 2, INF), (-INF, -3, -0.0), (-INF, 0.5, INF), (INF, 0.5, INF), (NAN, 1, NAN), (2, NAN, NAN), (4, 0.5, 2)],
    "atan2": [(0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, PI), (-0.0, -0.0, -PI), (INF, INF, PI / 4), (INF, -INF, 3 * PI / 4),
              (1, INF, 0.0), (1, -INF, PI), (-1, -INF, -PI), (INF, 1, PI / 2), (1, 0.0, PI / 2), (-1, -0.0, -PI / 2), (0.0, -1, PI),
              (-0.0, -1, -PI), (-0.0, 1, -0.0), (NAN, 1, NAN), (1, NAN, NAN), (1, 1, PI / 4), (-1, -1, -3 * PI / 4)],
    "maximum": [(0.0, -0.0, 0.0), (-0.0, 0.0, 0.0), (NAN, 1, NAN), (1, NAN, NAN), (1, 2, 2), (-INF, INF, INF), (-0.0, -0.0, -0.0)],
    "minimum": [(0.0, -0.0, -0.0), (-0.0, 0.0, -0.0), (NAN, 1, NAN), (1, NAN, NAN), (1, 2, 1), (-INF, INF, -INF)],
    "fmod": [(5, 3, 2), (-5, 3, -2), (5, -3, 2), (1, 0, NAN), (INF, 1, NAN), (1, INF, 1), (-0.0, 1, -0.0), (6, 3, 0.0), (-6, 3, -0.0)],
    "mod": [(5, 3, 2), (-5, 3, 1), (5, -3, -1), (1, 0, NAN), (-6, 3, 0.0), (6, -3, -0.0), (1, INF, 1), (-1, INF, INF)],
    "floordiv": [(5, 3, 1), (-5, 3, -2), (5, -3, -2), (1, 0, INF), (-1, 0.0, -INF), (0, 0, NAN), (-0.0, 1, -0.0), (1, INF, 0.0), (-1, INF, -1)],
}


def same(got, want):
    return (got != got and want != want) or (got == want and np.signbit(got) == np.signbit(want))


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_special_values(lib, t):
    ft = F[t]
    for name, cases in SPECIAL.items():
        x = np.array([c[0] for c in cases] + [NAN, -NAN], ft)
        want = np.array([c[1] for c in cases] + [NAN, NAN], ft)
        got = call(lib, f"{name}_{t}", x, out=ft)
        for a, g, w in zip(x, got, want):
            assert same(g, w), f"{name}_{t}({a!r}) = {g!r}, not {w!r}"
    for name, cases in SPECIAL2.items():
        a, b, want = (np.array(v, ft) for v in zip(*cases))
        got = call(lib, f"{name}_{t}", a, b, out=ft)
        for u, v, g, w in zip(a, b, got, want):
            assert same(g, w), f"{name}_{t}({u!r}, {v!r}) = {g!r}, not {w!r}"


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_rounding_and_remainders(lib, t):
    rng = np.random.default_rng(7)
    ft, ut = F[t], U[t]
    x, y = (np.frombuffer(rng.bytes(4000 * np.dtype(ut).itemsize), ut).view(ft) for _ in range(2))
    x = np.concatenate([x, (rng.uniform(-9, 9, 4000) * 2.0 ** rng.integers(-3, 30, 4000)).astype(ft)])
    y = np.concatenate([y, rng.uniform(-9, 9, 4000).astype(ft)])
    with np.errstate(all="ignore"):
        for name, f in [("rint", np.rint), ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc)]:
            np.testing.assert_array_equal(call(lib, f"{name}_{t}", x, out=ft), f(x))
        np.testing.assert_array_equal(call(lib, f"fmod_{t}", x, y, out=ft), np.fmod(x, y))
        got, want = call(lib, f"mod_{t}", x, y, out=ft), np.mod(x, y)
        keep = np.isfinite(x) & np.isfinite(y)
        np.testing.assert_array_equal(got[keep], want[keep])
        got, want = call(lib, f"floordiv_{t}", x, y, out=ft), np.floor_divide(x, y)
        keep &= np.isfinite(want)
        np.testing.assert_array_equal(got[keep], want[keep])


# ---- casts and 16-bit formats ----

@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.parametrize("i", sorted(INTS))
def test_saturating_casts(lib, t, i):
    info, ft = np.iinfo(INTS[i]), F[t]
    edges = [float(v) for v in (info.min, info.max, 0, 1, -1)]
    x = np.array([s for e in edges for s in (e, e - 1, e + 1, e + 0.5, e - 0.5, e * 2)] + [INF, -INF, NAN, -0.0, 0.99, -0.99, 1e30, -1e30], ft)
    x = np.concatenate([x, np.nextafter(x, ft(INF)), np.nextafter(x, ft(-INF))])
    want = [0 if v != v else (info.max if v >= info.max else info.min if v <= info.min else int(v)) for v in x.tolist()]
    assert call(lib, f"{t}_to_{i}", x, out=INTS[i]).tolist() == want


def canonical(bits, dtype):
    nan = np.isnan(bits.view(dtype).astype(np.float32))
    return np.where(nan, np.uint16(0x7E00 if dtype == np.float16 else 0x7FC0), bits)


@pytest.mark.parametrize("h,dtype", [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_16_bit_formats(lib, h, dtype):
    bits = np.arange(65536, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        wide = bits.view(dtype).astype(np.float32)
    np.testing.assert_array_equal(call(lib, f"{h}_to_f32", bits, out=np.float32), wide)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(call(lib, f"{h}_to_f64", bits, out=np.float64), wide.astype(np.float64))
    # narrowing: every value, the midpoint above it, and the neighbours of both
    finite = np.sort(wide[np.isfinite(wide)].astype(np.float64))
    mid = (finite[1:] + finite[:-1]) / 2
    for t, ft in F.items():
        x = np.concatenate([finite, mid, [INF, -INF, NAN, 1e300, -1e300, 65504, 65519.996, 65520, 3.4e38, 3.39e38, 0.0, -0.0]])
        with np.errstate(over="ignore"):
            x = x.astype(ft)
            x = np.concatenate([x, np.nextafter(x, ft(INF)), np.nextafter(x, ft(-INF))])
            if t == "f32":
                want = x.astype(dtype).view(np.uint16)
            else:
                want = exact_narrow(x, h)
        got = call(lib, f"{t}_to_{h}", x, out=np.uint16)
        np.testing.assert_array_equal(got, canonical(want, dtype))


def exact_narrow(x, h):
    """f64 -> 16 bits in one rounding, by scaling to integers (np.rint is half to even and exact here)."""
    p, emin, top, inf = (11, -14, 65520.0, 0x7C00) if h == "f16" else (8, -126, float.fromhex("0x1.ffp127"), 0x7F80)
    a = np.abs(x)
    with np.errstate(all="ignore"):
        e = np.where(a == 0, emin, np.maximum(np.frexp(a)[1] - 1, emin))
        n = np.rint(np.ldexp(a, p - 1 - e))  # integer significand
        r = np.where(np.isfinite(a), n + (e - emin).astype(np.float64) * 2.0 ** (p - 1), 0).astype(np.uint32)
        r = np.where(a >= top, inf, r).astype(np.uint16)
    r = r | (np.signbit(x).astype(np.uint16) << 15)
    return np.where(np.isnan(x), 0x7E00 if h == "f16" else 0x7FC0, r).astype(np.uint16)


def test_integers_round_once(lib):
    rng = np.random.default_rng(8)
    v = np.concatenate([rng.integers(-70000, 70000, 20000), rng.integers(-2**63, 2**63, 20000, dtype=np.int64) >> rng.integers(0, 60, 20000),
                        np.array([0, -1, 65519, 65520, -65519, -65520, 2**63 - 1, -2**63])])
    v = np.concatenate([v, (np.int64(1) << np.arange(62)) + (np.int64(1) << np.maximum(np.arange(62) - 8, 0)) + rng.integers(-1, 2, 62)])
    with mp.workprec(70):
        exact = [mp.mpf(int(i)) for i in v]
    for h, dtype, p in (("f16", np.float16, 11), ("bf16", ml_dtypes.bfloat16, 8)):
        with mp.workprec(p):
            want = np.array([float(+e) for e in exact])
        with np.errstate(over="ignore"):
            want = want.astype(np.float32).astype(dtype).view(np.uint16)
        np.testing.assert_array_equal(call(lib, f"i64_to_{h}", v, out=np.uint16), want)
    np.testing.assert_array_equal(call(lib, "i64_to_f32", v, out=np.float32), v.astype(np.float32))


# ---- integers ----

@pytest.mark.parametrize("i", sorted(INTS))
def test_integer_operations(lib, i):
    it, info = INTS[i], np.iinfo(INTS[i])
    rng = np.random.default_rng(9)
    edge = [v for v in (info.min, info.min + 1, -7, -3, -2, -1, 0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, info.max - 1, info.max) if info.min <= v <= info.max]
    pairs = list(itertools.product(edge, edge)) + list(zip(*(rng.integers(info.min, info.max, 500, dtype=it, endpoint=True).tolist() for _ in range(2))))
    a, b = (np.array(c, it) for c in zip(*pairs))
    width = info.bits

    def wrap(v):
        v &= (1 << width) - 1
        return v - (1 << width) if info.min < 0 and v >> (width - 1) else v

    def ipow(x, n):
        return (x ** -n if n < 0 and abs(x) == 1 else 0) if n < 0 else pow(x, n, 1 << width)

    trunc = lambda x, y: (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)
    ops = {
        "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
        "floordiv": lambda x, y: x // y if y else 0, "mod": lambda x, y: x % y if y else 0,
        "truncdiv": lambda x, y: trunc(x, y) if y else 0, "fmod": lambda x, y: x - y * trunc(x, y) if y else 0,
        "shl": lambda x, y: x << y if 0 <= y < width else 0, "shr": lambda x, y: x >> y if 0 <= y < width else (-1 if x < 0 else 0),
        "maximum": max, "minimum": min, "pow": ipow,
    }
    for name, f in ops.items():
        got = call(lib, f"{name}_{i}", a, b, out=it).tolist()
        for (x, y), g in zip(pairs, got):
            assert g == wrap(f(x, y)), f"{name}_{i}({x}, {y}) = {g}"
    assert call(lib, f"neg_{i}", a, out=it).tolist() == [wrap(-x) for x, _ in pairs]
    assert call(lib, f"abs_{i}", a, out=it).tolist() == [wrap(abs(x)) for x, _ in pairs]


# ---- random numbers ----

KNOWN = [  # Random123's kat_vectors, philox4x32 10: counter, key, result
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


def philox(lib, counter, key):
    c, r = np.array([*counter, *key], np.uint32), np.empty(4, np.uint32)
    lib.v_philox(c.ctypes.data_as(ctypes.c_void_p), r.ctypes.data_as(ctypes.c_void_p))
    return tuple(r.tolist())


def words(lib, seed, first, n):
    r = np.empty(n, np.uint32)
    lib.v_philox_words(ctypes.c_uint64(seed), ctypes.c_uint64(first), r.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(n))
    return r


@pytest.mark.parametrize("counter,key,want", KNOWN)
def test_philox_known_answers(lib, counter, key, want):
    assert philox(lib, counter, key) == want


def test_philox_stream(lib):
    seed, first = 0x0123456789ABCDEF, (5 << 34) + 3  # past 2^32 blocks, and not on a block's edge
    got = words(lib, seed, first, 9).tolist()
    want = [philox(lib, ((k // 4) & 0xFFFFFFFF, (k // 4) >> 32, 0, 0), (seed & 0xFFFFFFFF, seed >> 32))[k % 4] for k in range(first, first + 9)]
    assert got == want


def test_uniform_and_normal(lib):
    w = np.concatenate([np.array([0, 0xFFFFFFFF, 1 << 31, 255, 256], np.uint32), words(lib, 1, 0, 40000)])[:40000]
    w64, v64 = w.astype(np.uint64), w[::-1].astype(np.uint64)
    for name, shift in (("f32", 8), ("f16", 21), ("bf16", 24)):
        np.testing.assert_array_equal(call(lib, f"uniform_{name}", w, out=np.float32), (w >> shift) * 2.0 ** -(32 - shift))
    np.testing.assert_array_equal(call(lib, "uniform_oc_f32", w, out=np.float32), ((w64 >> 8) + 1) * 2.0 ** -24)
    k = ((w64 << 32) | v64) >> 11
    v = np.ascontiguousarray(w[::-1])
    np.testing.assert_array_equal(call(lib, "uniform_f64", w, v, out=np.float64), k * 2.0 ** -53)
    np.testing.assert_array_equal(call(lib, "uniform_oc_f64", w, v, out=np.float64), (k + 1) * 2.0 ** -53)
    for t, per in (("f32", 2), ("f64", 4)):
        n = w.size // per
        r = np.empty(2 * n, F[t])
        getattr(lib, f"v_normal_{t}")(w.ctypes.data_as(ctypes.c_void_p), r.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(n))
        assert np.isfinite(r).all() and abs(r.mean()) < 0.03 and abs(r.std() - 1) < 0.03
        if t == "f32":
            u1, u2 = ((w[0::2] >> 8) + 1.0) * 2.0 ** -24, (w[1::2] >> 8) * 2.0 ** -24
            rad = np.sqrt(-2 * np.log(u1))
            np.testing.assert_allclose(r[0::2], rad * np.cos(2 * PI * u2), atol=2e-6)
            np.testing.assert_allclose(r[1::2], rad * np.sin(2 * PI * u2), atol=2e-6)


# ---- the same bits from every build ----

@pytest.mark.parametrize("t", ["f32", "f64"])
def test_same_bits_in_every_build(libs, t):
    rng = np.random.default_rng(10)
    ft, ut = F[t], U[t]
    n = 60000 if t == "f32" else 30000
    bits = np.frombuffer(rng.bytes(n * np.dtype(ut).itemsize), ut).view(ft)
    x = np.concatenate([bits, rng.uniform(-110, 110, n).astype(ft), rng.uniform(-1.5, 1.5, n).astype(ft)])
    y = x[rng.permutation(x.size)]
    names = list(libs)
    for name in [*REF, "rint", "floor", "ceil", "trunc", *SPECIAL2]:
        args = (x, y) if name in SPECIAL2 else (x,)
        if name in ("fmod", "mod", "floordiv"):
            args = tuple(a[::20] for a in args)
        first = None
        for b in names:
            r = call(libs[b], f"{name}_{t}", *args, out=ft)
            r = np.where(np.isnan(r), ft(NAN), r).view(ut)  # NaNs are one class
            first = r if first is None else first
            bad = np.flatnonzero(r != first)
            assert not bad.size, f"{name}_{t}: {names[0]} and {b} differ at {[a[bad[0]] for a in args]}"


def test_f32_loops_vectorise(tmp_path):
    """Speed, not bits: a plain loop over any f32 function must become SIMD code under g++ 12 or later."""
    gxx = shutil.which("g++")
    if not gxx or int(subprocess.run([gxx, "-dumpversion"], capture_output=True, text=True).stdout.split(".")[0]) < 12:
        pytest.skip("needs g++ 12")
    names = [*REF, "rint", "floor", "ceil", "trunc", "pow", "atan2", "maximum", "minimum"]
    two = {"pow", "atan2", "maximum", "minimum"}
    lines = ['#include "hal/numerics/numerics.h"']
    for n in names:
        lines.append(f"void v_{n}(const float *__restrict x, const float *__restrict y, float *__restrict r, long n) "
                     f"{{ for (long i = 0; i < n; i++) r[i] = hal_{n}_f32(x[i]{', y[i]' if n in two else ''}); }}")
    src = tmp_path / "loops.cpp"
    src.write_text("\n".join(lines) + "\n")
    p = subprocess.run([gxx, "-std=c++17", *FAST, "-mavx2", "-mfma", "-ffp-contract=off", f"-I{INCLUDE}", "-fopt-info-vec", "-S",
                        str(src), "-o", str(tmp_path / "loops.s")], capture_output=True, text=True, check=True)
    done = {int(l.split(":")[1]) for l in p.stderr.splitlines() if "loops.cpp:" in l and "loop vectorized" in l}
    assert [n for i, n in enumerate(names) if i + 2 not in done] == []
