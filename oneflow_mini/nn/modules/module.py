"""Module: the base class of all layers and models."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from ... import _C
from ..parameter import Buffer, Parameter
from . import _state_dict
from ._hooks import Handle, call_with_hooks

Tensor: Any = _C.Tensor
_REGISTRIES = ("_parameters", "_buffers", "_modules")


class Module:
    """Subclass it, assign parameters and modules as attributes in ``__init__`` and write ``forward``."""

    training: bool
    _hooked = False  # True once any hook is registered: calls then take the slow path

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = self.__dict__
        fields["training"] = True
        fields["_parameters"] = {}
        fields["_buffers"] = {}
        fields["_modules"] = {}
        fields["_non_persistent_buffers"] = set()
        fields["_forward_pre_hooks"] = OrderedDict()
        fields["_forward_hooks"] = OrderedDict()
        fields["_backward_hooks"] = OrderedDict()
        fields["_backward_pre_hooks"] = OrderedDict()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooked:
            return call_with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    # ----- attributes -------------------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:  # only reached when normal lookup fails
        fields = self.__dict__
        for registry in _REGISTRIES:
            members = fields.get(registry)
            if members is not None and name in members:
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        if isinstance(value, Parameter):
            self._require_init(name, "parameters")
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._require_init(name, "modules")
            self._forget(name, "_modules")
            fields["_modules"][name] = value
        elif isinstance(value, Buffer):
            self._require_init(name, "buffers")
            self._forget(name, "_buffers")
            self.register_buffer(name, value, value.persistent)
        elif "_parameters" in fields and name in fields["_parameters"]:
            if value is not None:
                raise TypeError(f"cannot assign '{_typename(value)}' as parameter '{name}' (oneflow_mini.nn.Parameter or None expected)")
            fields["_parameters"][name] = None
        elif "_modules" in fields and name in fields["_modules"]:
            if value is not None:
                raise TypeError(f"cannot assign '{_typename(value)}' as child module '{name}' (oneflow_mini.nn.Module or None expected)")
            fields["_modules"][name] = None
        elif "_buffers" in fields and name in fields["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{_typename(value)}' as buffer '{name}' (oneflow_mini.Tensor or None expected)")
            fields["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for registry in _REGISTRIES:
            if name in self.__dict__[registry]:
                del self.__dict__[registry][name]
                self._non_persistent_buffers.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = set(object.__dir__(self)).union(*(self.__dict__.get(r, ()) for r in _REGISTRIES))
        return sorted(n for n in names if not n[0].isdigit())

    def _require_init(self, name: str, kind: str) -> None:
        if "_modules" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call (attribute '{name}' of {type(self).__name__})")

    def _forget(self, name: str, keep: str) -> None:
        self.__dict__.pop(name, None)
        for registry in _REGISTRIES:
            if registry != keep:
                self.__dict__[registry].pop(name, None)

    def _check_name(self, name: str, kind: str, registry: str) -> None:
        self._require_init(str(name), kind + "s")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[registry]:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Any) -> None:
        self._check_name(name, "parameter", "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{_typename(param)}' object to parameter '{name}' (oneflow_mini.nn.Parameter or None required)")
        if param is not None and param.grad_fn is not None:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly.")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """A tensor that belongs to the state but isn't trained; ``persistent=False`` keeps it out of state_dict."""
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (oneflow_mini.Tensor or None required)")
        self._buffers[name] = tensor
        (self._non_persistent_buffers.discard if persistent else self._non_persistent_buffers.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        self._check_name(name, "module", "_modules")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._modules[name] = module

    register_module = add_module

    # ----- walking ----------------------------------------------------------------------------------------------------------------

    def named_modules(self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        memo = set() if memo is None else memo
        if self not in memo:
            if remove_duplicate:
                memo.add(self)
            yield prefix, self
            for name, module in self._modules.items():
                if module is not None:
                    yield from module.named_modules(memo, prefix + ("." if prefix else "") + name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        for _, module in self.named_children():
            yield module

    def _named_members(self, registry: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]:
            for name, member in module.__dict__[registry].items():
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield path + ("." if path else "") + name, member

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        yield from self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        for _, p in self.named_parameters(recurse=recurse):
            yield p

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        yield from self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        for _, b in self.named_buffers(recurse=recurse):
            yield b

    def get_submodule(self, target: str) -> Module:
        module: Any = self
        for part in target.split(".") if target else ():
            if not isinstance(getattr(module, part, None), Module):
                raise AttributeError(f"{type(module).__name__} has no submodule `{part}` (path `{target}`)")
            module = getattr(module, part)
        return module

    def get_parameter(self, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module._parameters.get(name) is None:
            raise AttributeError(f"{type(module).__name__} has no parameter `{name}`")
        return module._parameters[name]

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        """Calls ``fn`` on every submodule, then on self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ----- mode, dtype and device --------------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Module:
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Module:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        for p in self.parameters():
            if p.grad is not None:
                if set_to_none:
                    p.grad = None
                else:
                    p.grad = _C.zeros_like(p.grad)

    def _apply(self, fn: Callable[[Any], Any]) -> Module:
        """Replaces each parameter's data, gradient and each buffer by ``fn`` of it; the Parameter objects stay."""
        for module in self.children():
            module._apply(fn)
        for p in self._parameters.values():
            if p is not None:
                grad = p.grad
                p.grad = None
                p.data = fn(p.data)
                if grad is not None:
                    p.grad = fn(grad.detach())
        for name, b in self._buffers.items():
            if b is not None:
                self._buffers[name] = fn(b)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Module:
        """``to(device)``, ``to(dtype)``, ``to(device, dtype)`` or ``to(tensor)``: in place, returns self. A dtype only reaches floats."""
        device, dtype = _parse_to(args, kwargs)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point dtypes, but got desired dtype={dtype!r}")

        def convert(t: Any) -> Any:
            return _convert(t, device, dtype if t.is_floating_point() else None)

        return self._apply(convert)

    def cpu(self) -> Module:
        """Moves to the HOST device."""
        return self._apply(lambda t: t.cpu())

    def type(self, dst_type: Any) -> Module:
        return self._apply(lambda t: t.to(dst_type))

    def float(self) -> Module:
        return self.to(_C.float32)

    def double(self) -> Module:
        return self.to(_C.float64)

    def half(self) -> Module:
        return self.to(_C.float16)

    def bfloat16(self) -> Module:
        return self.to(_C.bfloat16)

    # ----- state ------------------------------------------------------------------------------------------------------------------

    def state_dict(self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Name → tensor of all parameters and persistent buffers, detached (unless keep_vars) but sharing storage."""
        return _state_dict.collect(self, OrderedDict() if destination is None else destination, prefix, keep_vars)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Copies values into parameters and buffers (``assign``: takes the tensors themselves). Nothing changes if it raises."""
        return _state_dict.load(self, state_dict, strict, assign)

    # ----- hooks ------------------------------------------------------------------------------------------------------------------

    def _register_hook(self, registry: str, hook: Callable[..., Any], with_kwargs: bool = False, prepend: bool = False) -> Handle:
        self.__dict__["_hooked"] = True
        return Handle(self.__dict__[registry], hook, with_kwargs, prepend)

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False) -> Handle:
        """hook(module, args) before forward; a result that isn't None replaces args."""
        return self._register_hook("_forward_pre_hooks", hook, with_kwargs, prepend)

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False) -> Handle:
        """hook(module, args, output) after forward; a result that isn't None replaces output."""
        return self._register_hook("_forward_hooks", hook, with_kwargs, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """hook(module, grad_input, grad_output) when the inputs' gradients are there; a result that isn't None replaces grad_input."""
        return self._register_hook("_backward_hooks", hook, prepend=prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """hook(module, grad_output) before the module's backward; a result that isn't None replaces grad_output."""
        return self._register_hook("_backward_pre_hooks", hook, prepend=prepend)

    # ----- text -------------------------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indent(repr(module))}" for name, module in self._modules.items()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


def _indent(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first] + ["  " + line for line in rest])


def _typename(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__name__}"


def _convert(t: Any, device: Any, dtype: Any) -> Any:
    if device is not None:
        t = t.to(device)
    return t if dtype is None else t.to(dtype)


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    import hal

    kwargs = dict(kwargs)
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    for ignored in ("non_blocking", "memory_format", "copy"):
        kwargs.pop(ignored, None)
    if kwargs:
        raise TypeError(f"[Module.to] got an unexpected keyword argument {next(iter(kwargs))!r}, expected device, dtype, non_blocking")
    for a in args:
        if isinstance(a, _C.dtype):
            dtype = a
        elif isinstance(a, Tensor):
            device, dtype = a.device, a.dtype
        elif isinstance(a, bool) or a is None:
            continue  # non_blocking, or to(None, dtype)
        else:
            device = a
    return (hal.device(device) if isinstance(device, str) else device), dtype
