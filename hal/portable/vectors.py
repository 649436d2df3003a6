"""Short vectors for targets without threads: part of the prelude.

For each type V (f32x8, f64x4, u32x8, u64x4) of element T there are ``hal_V``, ``HAL_LOAD_V(p)`` and ``HAL_STORE_V(p, v)`` at any
alignment, ``HAL_FILL_V(x)``, and ``HAL_MAC_V(a, b, c)``: a·b + c, with one rounding for floats. + works between vectors.
"""

from __future__ import annotations

_TYPES = (("f32x8", "f32", "float", 8), ("f64x4", "f64", "double", 4), ("u32x8", "u32", "uint", 8), ("u64x4", "u64", "ulong", 4))


def _opencl(name: str, element: str, word: str, count: int) -> list[str]:
    v, up = f"hal_{name}", name.upper()
    lines = [
        f"typedef {word}{count} {v};",
        f"#define HAL_LOAD_{up}(p) vload{count}(0, p)",
        f"#define HAL_STORE_{up}(p, v) vstore{count}(v, 0, p)",
        f"#define HAL_FILL_{up}(x) (({v})(x))",
    ]
    if element.startswith("u"):
        return [*lines, f"#define HAL_MAC_{up}(a, b, c) ((a) * (b) + (c))"]
    each = " ".join(f"r.s{k} = HAL_FMA_{element.upper()}(a.s{k}, b.s{k}, c.s{k});" for k in range(count))
    # PoCL's fma() of a vector is slower than what LLVM makes of the builtin on each element: one vector instruction
    return [
        *lines,
        "#if defined(POCL_DEVICE_ADDRESS_BITS)",
        f"HAL_FN {v} hal_mac_{name}({v} a, {v} b, {v} c) {{ {v} r; {each} return r; }}",
        f"#define HAL_MAC_{up}(a, b, c) hal_mac_{name}(a, b, c)",
        "#else",
        f"#define HAL_MAC_{up}(a, b, c) fma(a, b, c)",
        "#endif",
    ]


def _cxx(name: str, element: str, _word: str, count: int) -> list[str]:
    v, t, up = f"hal_{name}", f"hal_{element}", name.upper()
    size = count * (8 if element.endswith("64") else 4)
    lines = [
        f"typedef {t} {v} __attribute__((vector_size({size})));",
        f"HAL_FN {v} hal_load_{name}(const {t} *p) {{ {v} r; memcpy(&r, p, sizeof r); return r; }}",
        f"HAL_FN void hal_store_{name}({t} *p, {v} x) {{ memcpy(p, &x, sizeof x); }}",
        f"#define HAL_LOAD_{up}(p) hal_load_{name}(p)",
        f"#define HAL_STORE_{up}(p, v) hal_store_{name}(p, v)",
        f"#define HAL_FILL_{up}(x) ({v}{{}} + (x))",
    ]
    if element.startswith("u"):
        return [*lines, f"#define HAL_MAC_{up}(a, b, c) ((a) * (b) + (c))"]
    wide, kind = ("__m256", "ps") if element == "f32" else ("__m256d", "pd")
    each = f"for (int k = 0; k < {count}; ++k) r[k] = HAL_FMA_{element.upper()}(a[k], b[k], c[k]);"
    return [
        *lines,
        "#if defined(__FMA__)",
        f"#define HAL_MAC_{up}(a, b, c) ({v})_mm256_fmadd_{kind}(({wide})(a), ({wide})(b), ({wide})(c))",
        "#else",
        f"HAL_FN {v} hal_mac_{name}({v} a, {v} b, {v} c) {{ {v} r; {each} return r; }}",
        f"#define HAL_MAC_{up}(a, b, c) hal_mac_{name}(a, b, c)",
        "#endif",
    ]


def vectors(language: str) -> str:
    """The definitions in a language; CUDA has threads and needs none."""
    if language == "cuda":
        return ""
    lines = ["#if defined(__FMA__)", "#include <immintrin.h>", "#endif"] if language == "c++" else []
    for name, element, word, count in _TYPES:
        text = (_opencl if language == "opencl" else _cxx)(name, element, word, count)
        lines += ["#ifndef HAL_NO_F64", *text, "#endif"] if element == "f64" else text
    return "\n".join(lines) + "\n"
