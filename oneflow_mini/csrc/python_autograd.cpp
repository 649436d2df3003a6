// Autograd seen from Python: properties of Tensor, hooks, the engine, nodes written in Python.
#include "python.hpp"

namespace flow {

namespace {

using namespace pybind11::literals;

thread_local Node *t_current_node = nullptr;

// A function object that may be dropped where the GIL isn't held.
std::shared_ptr<py::object> shared_callable(py::object f) {
  return {new py::object(std::move(f)), [](py::object *p) {
            if (!Py_IsInitialized()) return;
            py::gil_scoped_acquire gil;
            delete p;
          }};
}

bool broadcasts_to(const Dims &from, const Dims &to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1 && from[i] != to[to.size() - from.size() + i]) return false;
  return true;
}

// autograd.Function: the backward is a Python callable.
struct PyNode final : Node {
  explicit PyNode(const std::string &label_text) : Node("PythonFunction"), text(label_text) {}
  std::string label() const override { return text; }
  void apply(const Tensors &grads, Tensors &out) override {
    py::gil_scoped_acquire gil;
    if (!callable)
      throw Error(HAL_ERROR_INVALID_ARGUMENT,
                  "[" + text +
                      "] Trying to backward through the graph a second time: its saved tensors have been freed. Specify retain_graph=True");
    py::list args;
    for (size_t i = 0; i < num_outputs; ++i) args.append(i < grads.size() && grads[i].defined() ? py::cast(grads[i]) : py::none());
    Node *before = t_current_node;
    t_current_node = this;
    py::object result;
    try {
      result = (*callable)(args);
    } catch (...) {
      t_current_node = before;
      throw;
    }
    t_current_node = before;
    py::tuple values = py::isinstance<py::tuple>(result)  ? py::tuple(result)
                       : py::isinstance<py::list>(result) ? py::tuple(result)
                                                          : py::make_tuple(result);
    if (values.size() < edges.size())
      throw Error(HAL_ERROR_INVALID_ARGUMENT, "[" + text + "] returned an incorrect number of gradients: got " +
                                                  std::to_string(values.size()) + ", expected " + std::to_string(edges.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      if (i >= edges.size()) {
        if (!values[i].is_none())
          throw Error(HAL_ERROR_INVALID_ARGUMENT, "[" + text + "] returned too many gradients: got " + std::to_string(values.size()) +
                                                      ", expected " + std::to_string(edges.size()));
        continue;
      }
      if (values[i].is_none() || !needs(i)) continue;
      if (!is_tensor(values[i].ptr()))
        throw Error(ErrorKind::Type,
                    "[" + text + "] gradient " + std::to_string(i) + " must be a Tensor or None: got " + Py_TYPE(values[i].ptr())->tp_name);
      Tensor g = unwrap(values[i].ptr());
      const auto &[sizes, dtype, device] = inputs[i];
      if (g.sizes() != sizes) {
        if (broadcasts_to(g.sizes(), sizes)) {
          g = expand(g, sizes);
        } else if (broadcasts_to(sizes, g.sizes())) {
          g = sum_to(g, sizes);
        } else {
          throw Error(HAL_ERROR_INVALID_ARGUMENT, "[" + text + "] returned an invalid gradient at index " + std::to_string(i) +
                                                      ": got shape " + to_string(g.sizes()) + ", expected " + to_string(sizes));
        }
      }
      out[i] = to_device(cast(g, dtype), *device);
    }
  }
  void release_saved() override { callable.reset(); }
  std::string text;
  std::shared_ptr<py::object> callable;
  std::vector<std::tuple<Dims, hal_dtype, hal::Device *>> inputs;
};

Ref<Node> make_function_node(const Tensors &outputs, const Tensors &inputs, py::object backward, const std::string &name) {
  auto *node = new PyNode(name);
  Ref<Node> ref(node);
  node->num_outputs = static_cast<uint32_t>(outputs.size());
  node->callable = shared_callable(std::move(backward));
  for (const Tensor &t : inputs) {
    node->edges.push_back(hal::is_float(t.dtype()) ? gradient_edge(t) : Edge{});
    node->inputs.emplace_back(t.sizes(), t.dtype(), &t.device());
  }
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    const Tensor &out = outputs[i];
    if (!hal::is_float(out.dtype())) continue;
    bool also_input = false;
    for (const Tensor &t : inputs) also_input |= t.impl() == out.impl();
    if (also_input && out.is_leaf() && out.requires_grad())
      throw Error(HAL_ERROR_INVALID_ARGUMENT, "[" + name + "] a leaf Variable that requires grad is being used in an in-place operation");
    set_history(out, ref, i);
  }
  return ref;
}

// A hook written in Python; a named type, so that the garbage collector can find the callable.
struct PythonHook {
  std::shared_ptr<py::object> callable;
  Tensor operator()(const Tensor &g) const {
    py::gil_scoped_acquire gil;
    const py::object r = (*callable)(g);
    if (r.is_none()) return Tensor();
    if (!is_tensor(r.ptr()))
      throw Error(ErrorKind::Type, std::string("[hook] a hook must return a Tensor or None: got ") + Py_TYPE(r.ptr())->tp_name);
    const Tensor out = unwrap(r.ptr());
    if (out.sizes() != g.sizes())
      throw Error(ErrorKind::Value,
                  "[hook] a hook has changed the size of value: got " + to_string(out.sizes()) + ", expected " + to_string(g.sizes()));
    return out;
  }
};

struct Handle {
  std::shared_ptr<HookList> list;
  uint64_t id = 0;
  void remove() {
    auto &h = list->hooks;
    for (size_t i = 0; i < h.size(); ++i)
      if (h[i].first == id) {
        h.erase(h.begin() + static_cast<std::ptrdiff_t>(i));
        return;
      }
  }
};

std::shared_ptr<HookList> hook_list(const Tensor &t) {
  AutogradMeta &m = autograd_meta(t);
  const Ref<Node> fn = t.grad_fn();
  if (!m.hooks) {
    m.hooks = std::make_shared<HookList>();
    if (fn) fn->hooks.emplace_back(m.output_nr, m.hooks);
  }
  return m.hooks;
}

Handle register_hook(const Tensor &t, py::object f) {
  if (!t.requires_grad())
    throw Error(HAL_ERROR_INVALID_ARGUMENT, "[register_hook] cannot register a hook on a tensor that doesn't require gradient");
  auto list = hook_list(t);
  auto callable = shared_callable(std::move(f));
  list->hooks.emplace_back(list->next_id, PythonHook{callable});
  return {list, list->next_id++};
}

Tensor gradient_of(const Tensor &t) {
  if (!t->autograd) return Tensor();
  const auto &hooks = t->autograd->hooks;
  return hooks && hooks->retained ? *hooks->retained : t->autograd->grad;
}

void set_gradient(const Tensor &t, const std::optional<Tensor> &g) {
  if (g) {
    if (g->sizes() != t.sizes())
      throw Error(HAL_ERROR_INVALID_ARGUMENT,
                  "[grad] assigned grad has data of a different size: got " + to_string(g->sizes()) + ", expected " + to_string(t.sizes()));
    if (g->dtype() != t.dtype())
      throw Error(HAL_ERROR_INVALID_ARGUMENT, std::string("[grad] assigned grad has data of a different type: got ") +
                                                  dtype_long_name(g->dtype()) + ", expected " + dtype_long_name(t.dtype()));
    if (&g->device() != &t.device())
      throw Error(HAL_ERROR_INVALID_ARGUMENT,
                  "[grad] assigned grad is on a different device: got " + g->device().name() + ", expected " + t.device().name());
  }
  if (!g && !t->autograd) return;
  AutogradMeta &m = autograd_meta(t);
  if (m.hooks && m.hooks->retained) *m.hooks->retained = g.value_or(Tensor());
  m.grad = g.value_or(Tensor());
}

void set_requires_grad(const Tensor &t, bool value) {
  if (value && !hal::is_float(t.dtype()))
    throw Error(
        HAL_ERROR_INVALID_ARGUMENT,
        std::string("[requires_grad] only Tensors of floating point dtype can require gradients: got ") + dtype_long_name(t.dtype()));
  if (!t.is_leaf()) {
    if (!value)
      throw Error(HAL_ERROR_INVALID_ARGUMENT,
                  "[requires_grad] you can only change requires_grad flags of leaf variables. Use detach() to cut a non-leaf off");
    return;
  }
  if (value || t->autograd) autograd_meta(t).requires_grad = value;
}

// Gradients to start from; None means 1 for a single element.
Tensors start_gradients(const Tensors &roots, const std::vector<std::optional<Tensor>> &grads) {
  Tensors out;
  for (size_t i = 0; i < roots.size(); ++i) {
    const Tensor &r = roots[i];
    if (i < grads.size() && grads[i]) {
      const Tensor &g = *grads[i];
      if (g.sizes() != r.sizes())
        throw Error(HAL_ERROR_INVALID_ARGUMENT,
                    "[backward] Mismatch in shape: got gradient " + to_string(g.sizes()) + ", expected " + to_string(r.sizes()));
      if (&g.device() != &r.device())
        throw Error(HAL_ERROR_INVALID_ARGUMENT,
                    "[backward] gradient is on a different device: got " + g.device().name() + ", expected " + r.device().name());
      out.push_back(cast(g, r.dtype()));
    } else {
      if (r.numel() != 1)
        throw Error(HAL_ERROR_INVALID_ARGUMENT,
                    "[backward] grad can be implicitly created only for scalar outputs: got shape " + to_string(r.sizes()));
      out.push_back(full(r.sizes(), Scalar(1), r.dtype(), r.device()));
    }
  }
  return out;
}

py::tuple backward(const Tensors &roots, const std::vector<std::optional<Tensor>> &grads, bool retain, bool create, const Tensors &inputs,
                   bool allow_unused, bool accumulate) {
  const Tensors out = run_backward(roots, start_gradients(roots, grads), retain || create, create, inputs, accumulate);
  py::tuple result(accumulate ? 0 : out.size());
  for (size_t i = 0; i < result.size(); ++i) {
    if (!out[i].defined() && !allow_unused)
      throw Error(HAL_ERROR_INVALID_ARGUMENT,
                  "[grad] One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is "
                  "the desired behavior");
    result[i] = out[i];
  }
  return result;
}

}  // namespace

namespace {
// The hooks that nothing but t can reach: through its own list, and its node's if only t holds that. Else nullptr.
HookList *own_hooks(const TensorImpl *t) {
  if (t->use_count() != 1 || !t->autograd || !t->autograd->hooks) return nullptr;
  const AutogradMeta &m = *t->autograd;
  long holders = 1;
  if (m.grad_fn) {
    if (m.grad_fn->use_count() != 1) return nullptr;
    for (const auto &[nr, list] : m.grad_fn->hooks) holders += list == m.hooks;
  }
  return m.hooks.use_count() == holders ? m.hooks.get() : nullptr;
}
}  // namespace

int traverse_hooks(const TensorImpl *t, visitproc visit, void *arg) {
  HookList *list = own_hooks(t);
  if (!list) return 0;
  for (auto &[id, hook] : list->hooks)
    if (auto *h = hook.target<PythonHook>(); h && h->callable.use_count() == 1) Py_VISIT(h->callable->ptr());
  return 0;
}

void clear_hooks(TensorImpl *t) {
  if (HookList *list = own_hooks(t)) {
    auto hooks = std::move(list->hooks);  // dropped when the list no longer holds them
    list->hooks.clear();
  }
}

namespace {

// Switches recording for a block. In C++, because an interrupt (a signal's exception) can come between any two lines of Python: between
// switching and the try that undoes it, too.
struct GradModeBlock {
  std::optional<bool> mode;    // none: as it is
  std::vector<bool> previous;  // of the blocks that are entered
  bool at_once;                // switched by the constructor already
  GradModeBlock(std::optional<bool> m, bool now) : mode(m), at_once(now) {
    if (now) enter();
  }
  void enter() {
    previous.push_back(grad_enabled());
    if (mode) set_grad_enabled(*mode);
  }
  void leave() {
    if (previous.empty()) return;
    set_grad_enabled(previous.back());
    previous.pop_back();
  }
};

}  // namespace

void bind_autograd(py::module_ &m, py::object &type) {
  py::class_<GradModeBlock>(m, "grad_mode")
      .def(py::init<std::optional<bool>, bool>(), "mode"_a, "now"_a = false)
      .def("__enter__",
           [](GradModeBlock &b) {
             if (b.at_once && b.previous.size() == 1) {
               if (b.mode) set_grad_enabled(*b.mode);
               b.at_once = false;
             } else {
               b.enter();
             }
           })
      .def("__exit__", [](GradModeBlock &b, const py::args &) { b.leave(); })
      .def("undo", &GradModeBlock::leave, "Takes back what the constructor did.");
  py::class_<Node, Ref<Node>>(m, "Node")
      .def("name", &Node::label)
      .def("__repr__", [](const Node &n) { return "<" + n.label() + ">"; })
      .def_property_readonly("next_functions", [](const Node &n) {
        py::tuple out(n.edges.size());
        for (size_t i = 0; i < n.edges.size(); ++i)
          out[i] = py::make_tuple(n.edges[i].node ? py::cast(n.edges[i].node) : py::none(), n.edges[i].input_nr);
        return out;
      });
  py::class_<Handle>(m, "RemovableHandle").def("remove", &Handle::remove);

  m.def("is_grad_enabled", &grad_enabled);
  m.def("set_grad_enabled", [](bool mode) {
    const bool before = grad_enabled();
    set_grad_enabled(mode);
    return before;
  });
  m.def("run_backward", &backward, "tensors"_a, "grads"_a, "retain_graph"_a = false, "create_graph"_a = false, "inputs"_a = Tensors(),
        "allow_unused"_a = false, "accumulate"_a = true);
  m.def("make_function_node", &make_function_node, "outputs"_a, "inputs"_a, "backward"_a, "name"_a);
  m.def("current_node", [] { return Ref<Node>(t_current_node); });
  m.def(
      "set_history", [](const Tensor &t, const Ref<Node> &node, uint32_t nr) { set_history(t, node, nr); }, "tensor"_a, "node"_a,
      "output_nr"_a);

  def_property(type, "requires_grad", [](const Tensor &t) { return t.requires_grad(); }, &set_requires_grad);
  def_property(type, "grad", &gradient_of, &set_gradient);
  def_property(type, "grad_fn", [](const Tensor &t) -> py::object {
    const Ref<Node> fn = t.grad_fn();
    return fn ? py::cast(fn) : py::none();
  });
  def_property(type, "is_leaf", [](const Tensor &t) { return !t.grad_fn(); });
  def_property(type, "output_nr", [](const Tensor &t) { return t->autograd ? t->autograd->output_nr : 0; });
  def_property(type, "_version", [](const Tensor &t) { return t.version(); });
  def_property(type, "_base", [](const Tensor &t) { return t->autograd ? t->autograd->base : Tensor(); });
  def_property(
      type, "data", [](const Tensor &t) { return detach(t); },
      [](const Tensor &t, const Tensor &value) {
        t->storage = value->storage;
        t->offset = value->offset;
        t->dtype = value.dtype();
        t->sizes = value.sizes();
        t->strides = value.strides();
      });
  def_method(
      type, "requires_grad_",
      [](const Tensor &t, bool value) {
        set_requires_grad(t, value);
        return t;
      },
      "requires_grad"_a = true);
  def_method(type, "register_hook", &register_hook, "hook"_a);
  def_method(type, "retain_grad", [](const Tensor &t) {
    if (!t.requires_grad())
      throw Error(HAL_ERROR_INVALID_ARGUMENT, "[retain_grad] can't retain_grad on Tensor that has requires_grad=False");
    if (!t.grad_fn()) return;
    auto list = hook_list(t);
    if (!list->retained) list->retained = std::make_shared<Tensor>();
  });
  def_method(
      type, "backward",
      [](const Tensor &t, const std::optional<Tensor> &gradient, std::optional<bool> retain, bool create, const py::object &inputs) {
        Tensors only;
        if (is_tensor(inputs.ptr()))
          only.push_back(unwrap(inputs.ptr()));
        else if (!inputs.is_none())
          for (auto item : py::list(inputs)) {
            if (!is_tensor(item.ptr()))
              throw Error(ErrorKind::Type, std::string("[backward] inputs must be Tensors: got ") + Py_TYPE(item.ptr())->tp_name);
            only.push_back(unwrap(item.ptr()));
          }
        backward({t}, {gradient}, retain.value_or(create), create, only, true, true);
      },
      "gradient"_a = py::none(), "retain_graph"_a = py::none(), "create_graph"_a = false, "inputs"_a = py::none());
  type.attr("_make_subclass") = py::module_::import("builtins")
                                    .attr("staticmethod")(py::cpp_function(
                                        [](py::type cls, const Tensor &data, bool requires_grad) {
                                          if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject *>(cls.ptr()), g_tensor_type))
                                            throw Error(ErrorKind::Type, "[_make_subclass] cls must be a subclass of Tensor");
                                          Tensor t = detach(data);
                                          set_requires_grad(t, requires_grad);
                                          return py::reinterpret_steal<py::object>(wrap_as(reinterpret_cast<PyTypeObject *>(cls.ptr()), t));
                                        },
                                        "cls"_a, "data"_a, "requires_grad"_a = false));
}

}  // namespace flow
