"""The class that plugin authors derive from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

from .. import _core
from .kernels import KernelInfo, Operand, Tensor

if TYPE_CHECKING:
    from .. import portable


class Properties(TypedDict, total=False):
    """What `Plugin.devices` tells of one device. Only ``name`` and ``total_memory`` have no useful default."""

    name: str  #: of the hardware, for people
    vendor: str
    driver: str  #: its version, for people
    total_memory: int  #: bytes
    max_allocation: int  #: bytes; 0: no limit below total_memory
    memory_alignment: int  #: bytes, a power of two: what `alloc` is asked for at least
    offset_alignment: int  #: bytes: operands start at multiples of it; 1: anywhere
    compute_units: int
    #: of "fma", "subnormals", "rounded_div_sqrt", "f64", "emulated", "simulated_time". The first three are promised by every device
    #: that offers reproducible kernels; the conformance suite tests them.
    capabilities: Sequence[str]


class Plugin:
    """A device plugin. Override the hooks; what isn't overridden raises `hal.UnsupportedError` naming the hook.

    Threads: a hook may be called from any thread. Hooks that name one stream are called one at a time, in order. An exception that a hook
    raises reaches the user with the hook's frames, chained as the cause: `MemoryError` becomes `hal.OutOfMemoryError`,
    `NotImplementedError` `hal.UnsupportedError`, hal's own exceptions stay, anything else is `hal.InternalError`.

    A hook may call hal, also for its own device, except where the runtime waits for it with a lock held (``alloc``, ``free`` and ``open``
    of the same device): there it gets an `InternalError`, not a deadlock.
    """

    id: str = ""  #: [a-z][a-z0-9_]*: the part of a device string before ':'
    version: str = "0.0"  #: of the plugin, for people

    #: The dialect that `compile` takes: "c++", "opencl" or "cuda".
    portable_target: str = "c++"

    # --- tier 1: memory ---------------------------------------------------------------------------------------------------------------

    def devices(self) -> Sequence[Properties]:
        """One dict per device that can be opened now. Raise `hal.UnavailableError` with the reason if there is none."""
        self._missing("devices")

    def open(self, ordinal: int, options: str) -> Any:
        """The object that other hooks get as ``device``; the default is the ordinal. options: the text after '?' in "mychip:0?…"."""
        if options:
            raise ValueError(f"unknown options {options!r}: {self.id} has none")
        return ordinal

    def close(self, device: Any) -> None:
        """All memory has been freed, and nothing is in flight."""

    def alloc(self, device: Any, size: int, alignment: int) -> Any:
        """Memory of ``size`` > 0 bytes: any object; the other hooks get it back. Raise MemoryError if there is none left."""
        self._missing("alloc")

    def free(self, device: Any, memory: Any) -> None:
        """Nothing uses the memory any more."""
        self._missing("free")

    def copy_from_host(self, stream: Any, dst: Any, dst_offset: int, data: memoryview) -> None:
        """Copies ``data`` (bytes, read-only) to ``dst`` at a byte offset. ``data`` is valid during the call only."""
        self._missing("copy_from_host")

    def copy_to_host(self, stream: Any, data: memoryview, src: Any, src_offset: int) -> None:
        """Fills ``data`` (writable bytes) from ``src``. With markers (below) this may happen until the stream is waited for."""
        self._missing("copy_to_host")

    def copy(self, stream: Any, dst: Any, dst_offset: int, src: Any, src_offset: int, size: int) -> None:
        """Copies inside the device; overlap behaves as memmove."""
        self._missing("copy")

    # --- tier 1, optional: the runtime has a correct answer without them ---------------------------------------------------------------

    def memory_info(self, device: Any) -> tuple[int, int]:
        """(free, total) bytes. Default: ``total_memory`` less what `alloc` gave out."""
        self._missing("memory_info")

    def synchronize(self, device: Any) -> None:
        """Waits for everything that hooks have submitted. Default: a hook's work is done when it returns."""
        self._missing("synchronize")

    def host_address(self, device: Any, memory: Any) -> int:
        """Address at which the host may access the memory while nothing else does. Default: not host visible."""
        self._missing("host_address")

    def facts(self, device: Any) -> Mapping[str, str]:
        """What `hal doctor` shows of a device beside what it knows: name -> text."""
        return {}

    # --- queues of the device: for one that works asynchronously ------------------------------------------------------------------------
    # Default: hooks run one after another on the thread that submits, and ``stream`` is the device's object. With `record`, hooks only
    # submit; then `marker_done` and `wait_marker` are required too.

    def create_stream(self, device: Any, priority: int) -> Any:
        """A queue: the object that hooks get as ``stream``."""
        self._missing("create_stream")

    def destroy_stream(self, stream: Any) -> None:
        """Its work is done."""

    def record(self, stream: Any) -> Any:
        """A marker behind all that was submitted to the stream so far."""
        self._missing("record")

    def marker_done(self, marker: Any) -> bool:
        """Whether all before the marker is done; doesn't wait. Raises the failure of that work."""
        self._missing("marker_done")

    def wait_marker(self, marker: Any) -> None:
        """Waits until it is. Raises the failure of that work."""
        self._missing("wait_marker")

    def order_after(self, stream: Any, marker: Any) -> None:
        """Work submitted to ``stream`` later runs after the marker; doesn't wait. Default: `wait_marker`."""
        self._missing("order_after")

    def marker_time(self, marker: Any) -> int:
        """Nanoseconds on the device's clock at which it was done. Default: events can't be timed."""
        self._missing("marker_time")

    # --- tier 2: portable kernels -------------------------------------------------------------------------------------------------------

    def compile(self, device: Any, source: str, kernels: Sequence[str]) -> Mapping[str, Any]:
        """Compiles a translation unit (prelude included) in the dialect `portable_target`; the object to launch for each kernel name.

        Called once per source and device.
        """
        self._missing("compile")

    def launch(self, stream: Any, kernel: Any, groups: int, group_size: int, args: tuple[Any, ...]) -> None:
        """Runs ``groups`` work-groups of ``group_size`` work-items of what `compile` gave: a one-dimensional launch.

        args, in the kernel's order: ``(memory, byte offset)`` fills TWO parameters, a pointer and a 64-bit integer (``memory`` is None
        for an immediate: any pointer will do); an int fills one 64-bit integer; bytes fill one struct of 64-bit integers, by value.
        """
        self._missing("launch")

    def target(self, device: Any) -> portable.Target:
        """What the generated kernels run on. Default: `portable_target` with that language's habits."""
        from .. import portable

        return portable.Target(self.portable_target)

    def program(self, device: Any, key: str, kernels: Sequence[str]) -> Mapping[str, Any] | None:
        """What `compile` would give for the source with this key (``hal.portable.Plan.key``) if it has been built ahead of time, else None.

        A device whose flow has no online compiler raises `hal.UnsupportedError` instead of None.
        """
        return None

    def check_status(self, stream: Any, text: str, args: tuple[Any, ...]) -> None:
        """Runs after a kernel that checks indices. Default: waits, and raises if one was out of range. args: the place of two 64-bit
        words: 0, or 1 and the index. Override it to look later: the failure must come up at the stream's next `wait_marker`."""
        from .portable import read_status

        read_status(self, stream, args[0], text)

    # --- tier 3 ------------------------------------------------------------------------------------------------------------------------

    def accepts(self, op: str, operands: Sequence[Operand], attributes: Mapping[str, Any]) -> None:
        """Raises `hal.UnsupportedError` (with the reason) for a use that the method marked with `kernel` doesn't take."""

    # --- from here on: the machinery ----------------------------------------------------------------------------------------------------

    def _missing(self, hook: str) -> NoReturn:
        raise _core.UnsupportedError(f"[{self.id or type(self).__name__}] the plugin doesn't implement the hook {hook!r}")

    def _overrides(self, hook: str) -> bool:
        """Whether the class (or the instance) brings the hook itself."""
        own = getattr(self, hook)
        return getattr(own, "__func__", own) is not getattr(Plugin, hook)

    def _own_kernels(self) -> list[tuple[KernelInfo, Callable[..., None]]]:
        found = []
        for name in dir(type(self)):
            for info in getattr(getattr(type(self), name, None), "__hal_kernels__", ()):
                found.append((info, getattr(self, name)))
        return found

    def _prepare(
        self, device: Any, op: str, numerics: str, operands: Sequence[Operand], attributes: Mapping[str, Any]
    ) -> tuple[int, Sequence[tuple[Any, ...]]]:
        """Bytes of workspace, and steps: (function, head, arguments), run as ``function(stream, *head, arguments)``."""
        dtype = operands[self._primary[op]].dtype
        reason = None
        for info, function in self._kernels:
            if info.op != op or info.numerics != numerics or dtype not in info.dtypes:
                continue
            try:
                self.accepts(op, operands, attributes)
            except _core.UnsupportedError as error:
                reason = error
                continue
            return 0, [(function, (dict(attributes) if isinstance(attributes, dict) else attributes,), _tensor_arguments(operands))]
        if self._library is not None and numerics == "reproducible":
            return self._library.prepare(device, op, operands, attributes)
        raise reason or _core.UnsupportedError(f"no kernel for {op} on {dtype}")

    _primary: dict[str, int]
    _kernels: list[tuple[KernelInfo, Callable[..., None]]]
    _library: Any


class _TensorMaker:
    """Callable (memory, offset) -> Tensor with the rest filled in."""

    __slots__ = ("dtype", "shape", "strides")

    def __init__(self, operand: Operand) -> None:
        self.dtype, self.shape, self.strides = operand.dtype, operand.shape, operand.strides

    def __call__(self, memory: Any, offset: int) -> Tensor:
        return Tensor(memory, offset, self.dtype, self.shape, self.strides)


def _tensor_arguments(operands: Sequence[Operand]) -> list[tuple[Any, ...]]:
    out: list[tuple[Any, ...]] = []
    for i, operand in enumerate(operands):
        if operand.kind == "absent":
            out.append(("absent",))
        elif operand.kind == "immediate":
            out.append(("immediate", i, operand.dtype))
        else:
            out.append(("tensor", i, _TensorMaker(operand)))
    return out
