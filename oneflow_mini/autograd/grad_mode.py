"""Switches for recording gradients: each a context manager and a decorator; the mode belongs to the thread."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from .. import _C


class _GradMode(_C.grad_mode):
    """Sets ``mode`` in a ``with`` block, or around each call of a function (and each step of a generator). Entering and leaving are
    C++, so that an interrupt can't come between them and what they do."""

    mode: bool | None = True

    def __init__(self) -> None:
        super().__init__(self.mode)

    def _clone(self) -> _GradMode:
        return type(self)()

    def __call__(self, func: Any) -> Any:
        if inspect.isgeneratorfunction(func):
            return self._wrap_generator(func)

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self._clone():
                return func(*args, **kwargs)

        return wrapper

    def _wrap_generator(self, func: Any) -> Any:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            generator, sent, error = func(*args, **kwargs), None, None
            while True:
                try:
                    with self._clone():
                        item = generator.send(sent) if error is None else generator.throw(error)
                except StopIteration as stop:
                    return stop.value
                sent, error = None, None
                try:
                    sent = yield item
                except GeneratorExit:
                    generator.close()
                    raise
                except BaseException as exc:  # thrown in by the consumer: belongs to the wrapped generator
                    error = exc

        return wrapper


class _Bare(_GradMode):
    """Allows ``@no_grad`` beside ``@no_grad()``."""

    def __new__(cls, func: Any = None) -> Any:
        return super().__new__(cls) if func is None else cls()(func)


class no_grad(_Bare):
    """Ops in it record no gradients; their results don't require grad."""

    mode = False


class enable_grad(_Bare):
    """Records gradients again inside no_grad."""


class inference_mode(_GradMode):
    """As no_grad (tensors made in it are ordinary tensors)."""

    def __new__(cls, mode: Any = True) -> Any:
        return cls()(mode) if callable(mode) else super().__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        self.mode = False if mode else None
        super().__init__()

    def _clone(self) -> _GradMode:
        return type(self)(self.mode is not None)


class set_grad_enabled(_GradMode):
    """Sets the mode at once; as a context manager also restores it at the end."""

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        _C.grad_mode.__init__(self, self.mode, True)

    def __call__(self, func: Any) -> Any:
        self.undo()  # a decorator changes the mode only around calls
        return super().__call__(func)

    def _clone(self) -> _GradMode:
        return _Around(self.mode)


class _Around(_GradMode):
    def __init__(self, mode: bool | None) -> None:
        self.mode = mode
        super().__init__()
