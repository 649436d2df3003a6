"""Finding OpenCL devices, and what each can be trusted with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import hal

#: The bits of the numerics contract depend on these.
BUILD_OPTIONS = ("-cl-std=CL1.2", "-cl-fp32-correctly-rounded-divide-sqrt")


@dataclass(frozen=True)
class Identity:
    """What a program binary is bound to: another device or driver version must not see it."""

    platform: str
    device: str
    driver: str

    def __str__(self) -> str:
        return f"{self.device} ({self.platform}, driver {self.driver})"


@lru_cache(maxsize=1)
def load() -> Any:
    """The module pyopencl. Raises `hal.UnavailableError`."""
    # PoCL would compile a kernel again for each work-group size that it meets: a loaded image runs as it is.
    os.environ.setdefault("POCL_WORK_GROUP_SPECIALIZATION", "0")
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    try:
        import pyopencl
    except Exception as error:  # ImportError, or what a broken ICD loader raises
        raise hal.UnavailableError(f"pyopencl can't be imported ({error}): pip install 'pyopencl[pocl]'") from error
    return pyopencl


@lru_cache(maxsize=1)
def find_devices() -> tuple[Any, ...]:
    """All OpenCL devices: accelerators first, then GPUs, then CPUs. HAL_OPENCL_PLATFORM: only platforms with this text in name or version.

    Raises `hal.UnavailableError` if there is none.
    """
    cl = load()
    wanted = os.environ.get("HAL_OPENCL_PLATFORM", "").lower()
    rank = {cl.device_type.ACCELERATOR: 0, cl.device_type.GPU: 1, cl.device_type.CPU: 2}
    found = []
    try:
        for platform in cl.get_platforms():
            if wanted in f"{platform.name} {platform.version}".lower():
                found += platform.get_devices()
    except cl.Error as error:
        raise hal.UnavailableError(f"OpenCL finds no platform: {error}") from error
    if not found:
        raise hal.UnavailableError("OpenCL finds no device" + (f" on a platform with {wanted!r} in its name" if wanted else ""))
    return tuple(sorted(found, key=lambda d: rank.get(d.type & 0b11110, 3)))  # stable: the loader's order otherwise


def identity(device: Any) -> Identity:
    return Identity(device.platform.version.strip(), device.name.strip(), f"{device.driver_version.strip()}, {device.version.strip()}")


def capabilities(device: Any) -> list[str]:
    """hal's capability names, from what the device reports."""
    config = load().device_fp_config
    single = device.single_fp_config
    names = []
    if single & config.FMA:
        names.append("fma")
    if single & config.DENORM:
        names.append("subnormals")
    if single & config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
        names.append("rounded_div_sqrt")
    if device.double_fp_config:
        names.append("f64")
    return names


def shortcomings(device: Any) -> str:
    """Why the device can't keep the numerics contract; "" if it can."""
    config = load().device_fp_config
    single = device.single_fp_config
    missing = [
        text
        for bit, text in (
            (config.ROUND_TO_NEAREST, "rounding to nearest"),
            (config.INF_NAN, "infinities and NaN"),
            (config.DENORM, "subnormals"),
            (config.FMA, "fma"),
            (config.CORRECTLY_ROUNDED_DIVIDE_SQRT, "correctly rounded division and square root"),
        )
        if not single & bit
    ]
    return f"{device.name.strip()} reports no {', no '.join(missing)} in f32: reproducible kernels need it" if missing else ""


def properties(device: Any) -> dict[str, Any]:
    """As `hal.plugin.Properties` wants it."""
    return {
        "name": device.name.strip(),
        "vendor": device.vendor.strip(),
        "driver": f"{device.platform.version.strip()}, {device.driver_version.strip()}"[:63],
        "total_memory": device.global_mem_size,
        "max_allocation": device.max_mem_alloc_size,
        "memory_alignment": max(64, device.mem_base_addr_align // 8),
        "compute_units": device.max_compute_units,
        "capabilities": capabilities(device),
    }
