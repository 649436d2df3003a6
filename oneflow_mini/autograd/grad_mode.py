"""Switches for recording gradients: each a context manager and a decorator; the mode belongs to the thread."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from .. import _C

_set = _C.set_grad_enabled


class _GradMode:
    """Sets ``mode`` in a ``with`` block, or around each call of a function (and each step of a generator)."""

    mode = True

    def __enter__(self) -> None:
        self.previous = _set(self.mode)

    def __exit__(self, *exc: Any) -> None:
        _set(self.previous)

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
        self = super().__new__(cls)
        return self if func is None else self(func)


class no_grad(_Bare):
    """Ops in it record no gradients; their results don't require grad."""

    mode = False


class enable_grad(_Bare):
    """Records gradients again inside no_grad."""


class inference_mode(_GradMode):
    """As no_grad (tensors made in it are ordinary tensors)."""

    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        if callable(mode):
            self.mode = False
            return self(mode)
        return self

    def __init__(self, mode: bool = True) -> None:
        self.enabled = mode

    def __enter__(self) -> None:
        self.previous = _set(False) if self.enabled else _C.is_grad_enabled()

    def _clone(self) -> _GradMode:
        return type(self)(getattr(self, "enabled", True))


class set_grad_enabled(_GradMode):
    """Sets the mode at once; as a context manager also restores it at the end."""

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self.previous = _set(self.mode)

    def __enter__(self) -> None:  # already set
        _set(self.mode)

    def __call__(self, func: Any) -> Any:
        _set(self.previous)  # a decorator changes the mode only around calls
        return super().__call__(func)

    def _clone(self) -> _GradMode:
        return type(self)(self.mode)
