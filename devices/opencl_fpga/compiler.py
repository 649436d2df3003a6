"""A child process that compiles: what the driver does to it (crash, exit) the parent survives. Frames of pickle on stdin and stdout.

    python -m devices.opencl_fpga.compiler DEVICE        (started by build.py)

In: (prelude, [sources]). Out: ("binary", bytes) or ("error", text).
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import warnings
from typing import Any, BinaryIO


def send(stream: BinaryIO, value: Any) -> None:
    data = pickle.dumps(value)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Raises EOFError when the other side has gone."""
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    (length,) = struct.unpack("<Q", head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)


def main() -> None:
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the driver prints must not get between the frames
    warnings.simplefilter("ignore")
    os.environ.setdefault("POCL_KERNEL_CACHE", "0")
    from .opencl import BUILD_OPTIONS, find_devices, load

    cl = load()
    device = find_devices()[int(sys.argv[1])]
    context = cl.Context([device])
    while True:
        try:
            prelude, sources = receive(requests)
        except EOFError:
            return
        try:
            program = cl.Program(context, prelude + "\n".join(sources)).build(options=list(BUILD_OPTIONS))
            send(answers, ("binary", program.get_info(cl.program_info.BINARIES)[0]))
        except Exception as error:
            send(answers, ("error", f"{type(error).__name__}: {str(error)[:4000]}"))


if __name__ == "__main__":
    main()
