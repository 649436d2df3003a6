"""The hooks: contexts, in-order queues, markers, buffers, and launches with arguments set once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import hal
from hal import portable

from .board import Board, Kernel
from .opencl import find_devices, load, properties, shortcomings

_SMALL = 1 << 16  # bytes up to which a copy from the host is staged rather than waited for


class Stream:
    """An in-order queue, its last event, and the kernel objects whose arguments it has set."""

    __slots__ = ("board", "kernels", "last", "queue")

    def __init__(self, board: Board) -> None:
        cl = load()
        self.board = board
        self.queue = cl.CommandQueue(board.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self.last: Any = None
        self.kernels: dict[Kernel, tuple[Any, Any, list[Any]]] = {}


class OpenclFpga(hal.Plugin):
    """The device class behind ``opencl_fpga:N``."""

    id = "opencl_fpga"
    version = hal.__version__ if hasattr(hal, "__version__") else "0"
    portable_target = "opencl"

    # --- devices ----------------------------------------------------------------------------------------------------------------------

    def devices(self) -> list[Any]:
        return [properties(device) for device in find_devices()]

    def open(self, ordinal: int, options: str) -> Board:
        return Board(ordinal, options)

    def facts(self, device: Board) -> dict[str, str]:
        s = device.statistics
        images = [f"{i.path or i.name}: {len(i.keys())} sources, {i.length / 2**20:.1f} MiB" for i in device.loaded_images]
        return {
            "images": "; ".join(images) or "none loaded yet",
            "image switches": f"{s.switches}, {s.switch_seconds * 1e3:.1f} ms",
            "uses without a kernel in the image": str(sum(s.missing.values())),
        }

    # --- memory -----------------------------------------------------------------------------------------------------------------------

    def alloc(self, device: Board, size: int, alignment: int) -> Any:
        cl = load()
        try:
            return cl.Buffer(device.context, cl.mem_flags.READ_WRITE, size)
        except (cl.MemoryError, cl.RuntimeError, cl.LogicError) as error:
            raise MemoryError(str(error)) from None

    def free(self, device: Board, memory: Any) -> None:
        memory.release()

    def copy_from_host(self, stream: Stream, dst: Any, dst_offset: int, data: memoryview) -> None:
        cl = load()
        if len(data) <= _SMALL:  # pyopencl keeps the staged copy until the event is done
            stream.last = cl.enqueue_copy(stream.queue, dst, bytearray(data), dst_offset=dst_offset, is_blocking=False)
        else:
            stream.last = cl.enqueue_copy(stream.queue, dst, data, dst_offset=dst_offset, is_blocking=True)

    def copy_to_host(self, stream: Stream, data: memoryview, src: Any, src_offset: int) -> None:
        stream.last = load().enqueue_copy(stream.queue, data, src, src_offset=src_offset, is_blocking=False)

    def copy(self, stream: Stream, dst: Any, dst_offset: int, src: Any, src_offset: int, size: int) -> None:
        cl = load()
        if dst is src and abs(dst_offset - src_offset) < size:  # OpenCL refuses overlap
            between = cl.Buffer(stream.board.context, cl.mem_flags.READ_WRITE, size)
            cl.enqueue_copy(stream.queue, between, src, byte_count=size, src_offset=src_offset)
            src, src_offset = between, 0
        stream.last = cl.enqueue_copy(stream.queue, dst, src, byte_count=size, src_offset=src_offset, dst_offset=dst_offset)

    # --- queues -----------------------------------------------------------------------------------------------------------------------

    def create_stream(self, device: Board, priority: int) -> Stream:
        stream = Stream(device)
        device.queues.append(stream.queue)
        return stream

    def destroy_stream(self, stream: Stream) -> None:
        stream.queue.finish()
        stream.board.queues.remove(stream.queue)

    def record(self, stream: Stream) -> Any:
        if stream.last is None:
            stream.last = load().enqueue_marker(stream.queue)
        stream.queue.flush()
        return stream.last

    def marker_done(self, marker: Any) -> bool:
        status = marker.command_execution_status
        if status < 0:
            raise RuntimeError(f"the OpenCL driver reports error {status} behind the queue")
        return status == 0

    def wait_marker(self, marker: Any) -> None:
        marker.wait()

    def order_after(self, stream: Stream, marker: Any) -> None:
        stream.last = load().enqueue_barrier(stream.queue, wait_for=[marker])

    def marker_time(self, marker: Any) -> int:
        return marker.profile.end

    # --- kernels ----------------------------------------------------------------------------------------------------------------------

    def target(self, device: Board) -> portable.Target:
        return device.target

    def program(self, device: Board, key: str, kernels: Sequence[str]) -> Mapping[str, Any]:
        if reason := shortcomings(device.device):
            raise hal.UnsupportedError(reason)
        return device.find(key, kernels)

    def compile(self, device: Board, source: str, kernels: Sequence[str]) -> Mapping[str, Any]:
        raise hal.UnsupportedError("nothing is compiled while running")

    def launch(self, stream: Stream, kernel: Kernel, groups: int, group_size: int, args: tuple[Any, ...]) -> None:
        cl = load()
        if kernel.image != kernel.board.current or kernel not in stream.kernels:
            stream.kernels[kernel] = _instance(kernel)
        instance, _, known = stream.kernels[kernel]
        at = 0
        for arg in args:
            if type(arg) is tuple:
                memory, arg = arg
                if known[at] is not memory:
                    instance.set_arg(at, memory)
                    known[at] = memory
                at += 1
            if known[at] is not arg and known[at] != arg:
                instance._set_arg_buf(at, arg if type(arg) is bytes else arg.to_bytes(8, "little", signed=True))
                known[at] = arg
            at += 1
        stream.last = cl.enqueue_nd_range_kernel(stream.queue, instance, (groups * group_size,), (group_size,))


def _instance(kernel: Kernel) -> tuple[Any, Any, list[Any]]:
    program = kernel.board.program(kernel)
    instance = load().Kernel(program, kernel.name)
    if instance.num_args != len(kernel.types):
        raise RuntimeError(f"{kernel.name} has {instance.num_args} parameters in the binary, {len(kernel.types)} in the image's manifest")
    return instance, program, [_UNSET] * len(kernel.types)


_UNSET = object()
