#!/bin/sh
# Builds ulp_check and runs it with the given arguments, e.g. "f32 exp" (exhaustive), "f32 all 61", "f64 all 1000000".
set -e
here=$(cd "$(dirname "$0")" && pwd)
out=${TMPDIR:-/tmp}/hal_ulp_check.$$
trap 'rm -f "$out"' EXIT
g++ -std=gnu++17 -O3 -mavx2 -mfma -ffp-contract=off -fno-math-errno -fno-trapping-math \
    -I"$here/../../hal/include" "$here/ulp_check.cpp" -o "$out" -lquadmath
"$out" "$@"
