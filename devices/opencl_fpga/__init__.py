"""OpenCL devices driven in the manner of FPGA flows: finished images are loaded, nothing is compiled while running.

Kernels are those of `hal.portable`. `hal fpga build` makes an image of them; without one the first use builds it into the user's cache
directory, once. Needs pyopencl: ``pip install hal-sdk[opencl]`` brings PoCL too, which runs on any machine, without a driver or root.

Files: opencl.py (finding devices, what they can), image.py (the checked container), build.py and compiler.py (making one), board.py (a
device, its images and their switches), plugin.py (the hooks), cli.py (`hal fpga`), report.py (the resource estimate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .plugin import OpenclFpga


def plugin() -> OpenclFpga:
    """What the entry point of the group ``hal.plugins`` names. Imports no driver: that waits for the first use."""
    from .plugin import OpenclFpga

    return OpenclFpga()
