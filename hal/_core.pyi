"""Bindings of libhal; use it through the package hal. Checked against the compiled module by tests/runtime/test_loader_stubs.py."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

ABI_VERSION: str

class Error(RuntimeError):
    """What a device or the runtime reports."""

class InvalidArgumentError(Error, ValueError): ...
class OutOfMemoryError(Error, MemoryError): ...
class UnsupportedError(Error, NotImplementedError): ...
class DeviceLostError(Error): ...
class TimeoutError_(Error, TimeoutError): ...
class LaunchFailedError(Error): ...
class UnavailableError(Error): ...
class InternalError(Error): ...
class AbiMismatchError(Error): ...
class OutOfRangeError(Error, IndexError): ...

class Device:
    """An open device. The same name always gives the same object."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def is_host(self) -> bool: ...
    @property
    def properties(self) -> dict[str, Any]: ...
    @property
    def default_stream(self) -> Stream: ...
    @property
    def current_stream(self) -> Stream: ...
    def synchronize(self) -> None:
        """Waits for all streams; raises the first failure behind them."""
    def memory_stats(self) -> dict[str, int]:
        """Bytes and counts of the caching allocator."""
    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes, as the device sees them."""
    def empty_cache(self) -> None:
        """Gives cached memory back to the device."""
    def _fail_allocation(self, n: int) -> None:
        """For tests: the n-th allocation from now on raises OutOfMemoryError (1: the next); 0 forgets it."""
    def set_memory_limit(self, bytes: int) -> None:
        """Most bytes that the allocator may take from the device; 0: no limit."""
    def reset_peak_memory_stats(self) -> None: ...
    def executable_cache_stats(self) -> dict[str, int]: ...
    def set_executable_cache_capacity(self, capacity: int) -> None: ...

class Stream:
    """An in-order queue of work on a device."""

    def __init__(self, device: str | Device | None = None, priority: int = 0) -> None: ...
    @property
    def device(self) -> Device: ...
    @property
    def id(self) -> int: ...
    def query(self) -> bool:
        """True if all submitted work is done."""
    def synchronize(self, timeout: float | None = None) -> None:
        """Waits for the submitted work, at most `timeout` seconds; raises its failure, once."""
    def wait(self, event: Event) -> None:
        """Work submitted later waits for the event, on the device."""
    def record_event(self) -> Event: ...

class Event:
    """A point in a stream that others wait for."""

    def __init__(self, device: str | Device | None = None, timing: bool = False, host_signalled: bool = False) -> None: ...
    @property
    def device(self) -> Device: ...
    def record(self, stream: Stream | None = None) -> None:
        """Stands for all work submitted to the stream so far."""
    def query(self) -> bool:
        """True if done; raises the failure behind it."""
    def synchronize(self, timeout: float | None = None) -> None: ...
    def elapsed(self, end: Event) -> float:
        """Seconds from this event to `end`."""
    def signal(self, status: int = 0) -> None:
        """Completes a host-signalled event; a status other than 0 poisons the waiters."""

class Array:
    """A strided view of device memory. Made by hal.array, hal.empty and hal.run."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> Device: ...
    @property
    def offset(self) -> int:
        """Of the first element in the buffer, in elements."""
    @property
    def nbytes(self) -> int: ...
    @property
    def ndim(self) -> int: ...
    @property
    def _buffer_id(self) -> int: ...
    @property
    def _address(self) -> tuple[int, int]:
        """(allocation, byte offset), to see reuse in tests."""
    def numpy(self) -> np.ndarray[Any, Any]:
        """Waits for the current stream and copies out."""
    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]: ...
    def as_strided(self, shape: Sequence[int], strides: Sequence[int], offset_elements: int = 0) -> Array:
        """Another view of the same buffer; strides and offset in elements. Must lie inside the buffer."""
    def record_stream(self, stream: Stream) -> None: ...

class _Setting:
    def __enter__(self) -> None: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

class _StreamGuard:
    def __enter__(self) -> Stream: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

# Devices and arrays
def device(name: str | Device | None) -> Device:
    """Opens (once) the device with this name: 'id', 'id:index' or 'id:index?options'. ValueError names what exists."""

def host_device() -> Device:
    """The device that serves as host: default, and target of fallback."""

def array(obj: ArrayLike, dtype: str | None = None, device: str | Device | None = None) -> Array:
    """Copies a numpy array, nested list or scalar to a device (default: the host device)."""

def empty(shape: Sequence[int], dtype: str, device: str | Device | None = None) -> Array:
    """An array with undefined content."""

def run(
    op: str,
    inputs: Sequence[Array | bool | int | float | None],
    attributes: dict[str, Any] | None = None,
    outputs: Sequence[Array | None] | None = None,
    *,
    shape: Sequence[int] | None = None,
    dtype: str | None = None,
    stream: Stream | None = None,
) -> Any:
    """Runs an op of the table.

    inputs: arrays, Python numbers (converted once to the operand's type) or None (an optional operand left out).
    attributes: dict by the table's names. outputs: arrays to write to (also strided, also in place), else allocated;
    shape= and dtype= for ops whose output they don't follow from the inputs. Returns the output, or a tuple of outputs.
    """

def stream(stream: Stream) -> _StreamGuard:
    """Context manager: the thread's current stream on the stream's device."""

# Settings
def numerics(mode: Literal["reproducible", "fast"] | str) -> _Setting:
    """Context manager, per thread: 'reproducible' or 'fast' kernels."""

def set_numerics(mode: Literal["reproducible", "fast"] | str) -> None:
    """The process default."""

def get_numerics() -> str:
    """What holds for this thread."""

def fallback(policy: Literal["allow", "error"] | str) -> _Setting:
    """Context manager, per thread: 'allow' or 'error' when a device has no kernel."""

def set_fallback(policy: Literal["allow", "error"] | str) -> None:
    """The process default."""

def get_fallback() -> str:
    """What holds for this thread."""

def fallback_records() -> list[dict[str, Any]]:
    """One dict per (device, op, dtype) that ran on the host device instead."""

def reset_fallback_records() -> None: ...
def set_num_threads(n: int) -> None:
    """Size of the thread pool for host kernels, n >= 1; waits for running loops."""

def get_num_threads() -> int:
    """Size of the thread pool: HAL_NUM_THREADS, else the CPUs that this process may use."""

# Plugins
def set_discovery(discover: Callable[[], None]) -> None:
    """Callable without arguments that registers what it finds; called once, late."""

def register_library(id: str, path: str) -> None:
    """Registers a plugin library without loading it."""

def register_failure(id: str, origin: str, reason: str) -> None:
    """Lists a plugin that was found but can't be registered."""

def register_tables(api: int, origin: str) -> None:
    """Registers a hal_plugin_api at this address; it must stay valid as long as the process."""

def register_python_plugin(
    id: str, version: str, hooks: dict[str, Any], rows: Sequence[tuple[str, Sequence[str], bool, bool, bool]], origin: str
) -> None:
    """Makes a plugin of bound methods; hal.plugin does this. rows: (op, dtypes, fast, contiguous, portable) of each kernel."""

def set_plugin_operand_type(type: type) -> None:
    """The class (kind, dtype, shape, strides) by which prepare is told of operands."""

def plugin_records(load: bool = True) -> list[dict[str, Any]]:
    """What is known of each plugin; load=True tries to load each."""

def device_kernels(name: str) -> list[dict[str, Any]]:
    """The kernel registry of a device (opens it)."""

def op_table() -> list[dict[str, Any]]:
    """Ops that the runtime knows, plugins' own included."""

def shutdown() -> None:
    """Waits for all work (some seconds at most) and closes all devices. Runs at exit."""

# Measurements
def bench_allocate(device: str | Device | None = None, n: int = 100000, bytes: int = 16) -> float:
    """ns per allocation and release, from C++; best of 5 rounds."""

def bench_noop_launch(device: str | Device | None = None, n: int = 100000) -> float:
    """ns per launch of a prepared one-element fill through the ABI, from C++; best of 5 rounds."""

def bench_run(device: str | Device | None = None, n: int = 100000, elements: int = 4) -> float:
    """ns per hal::run of an f32 add, from C++; best of 5 rounds."""

def host_bandwidth(pattern: Literal["read", "copy", "triad"] | str, bytes: int, repeats: int) -> float:
    """Bytes per second of host memory, the best of `repeats`: pattern 'read', 'copy' (read + write) or 'triad' (2 reads + write) over
    arrays of `bytes` each, on the thread pool. A loop of its own, no plugin takes part."""

def host_flops(dtype: Literal["f32", "f64"] | str, repeats: int) -> float:
    """Floating-point operations per second of independent multiply-adds ('f32' or 'f64') in registers, the best of `repeats`,
    with the widest instructions of this CPU, on the thread pool."""
