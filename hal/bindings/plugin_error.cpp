// Exceptions of plugins' hooks: as status and text for the runtime, as __cause__ for the user.
#include "plugin_python.hpp"

namespace {

struct Cause {
  std::string text;
  PyObject *exception;
};
thread_local Cause *t_cause = nullptr;

void set_cause(const std::string &text, PyObject *exception) {
  if (t_cause == nullptr) t_cause = new Cause{};  // kept for good: a thread's end is no time to drop Python objects
  t_cause->text = text;
  Py_INCREF(exception);
  PyObject *old = t_cause->exception;
  t_cause->exception = exception;
  Py_XDECREF(old);
}

hal_status status_of(PyObject *exception) {
  const hal_status status = status_of_python_type(reinterpret_cast<PyObject *>(Py_TYPE(exception)));
  if (status != HAL_OK) return status;
  auto is = [&](PyObject *type) { return PyObject_IsInstance(exception, type) == 1; };
  if (is(PyExc_MemoryError)) return HAL_ERROR_OUT_OF_MEMORY;
  if (is(PyExc_NotImplementedError)) return HAL_ERROR_UNSUPPORTED;
  return HAL_ERROR_INTERNAL;
}

// The exception that is set, normalised, with its traceback; cleared.
PyObject *fetch() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace != nullptr) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return value;
}

std::string describe(PyObject *exception, const char *hook) {
  PyObject *words = PyObject_Str(exception);
  const char *utf8 = words != nullptr ? PyUnicode_AsUTF8(words) : nullptr;
  std::string text = utf8 != nullptr ? utf8 : "";
  PyErr_Clear();
  Py_XDECREF(words);
  if (status_of_python_type(reinterpret_cast<PyObject *>(Py_TYPE(exception))) == HAL_OK)
    text = std::string("the plugin's hook ") + hook + " raised " + Py_TYPE(exception)->tp_name + (text.empty() ? "" : ": ") + text;
  if (text.size() > 480) text.resize(480);  // hal_error_info.text holds 512
  return text;
}

PyObject *g_traceback_type = nullptr;  // hal.plugin's HookTraceback, made at first use

}  // namespace

void detach(const Failure &failure) {
  PyObject *exception = failure.exception.get();
  if (exception == nullptr) return;
  try {
    const auto value = py::reinterpret_borrow<py::object>(exception);
    const py::object trace = value.attr("__traceback__");
    if (trace.is_none()) return;
    if (g_traceback_type == nullptr)
      g_traceback_type =
          PyErr_NewExceptionWithDoc("hal.plugin.HookTraceback", "Where a hook of a plugin failed, as text.", nullptr, nullptr);
    const py::object lines = py::module_::import("traceback").attr("format_exception")(py::type::of(value), value, trace);
    const py::str text("\n" + std::string(py::str(py::str("").attr("join")(lines))));
    const py::object told = py::reinterpret_steal<py::object>(PyObject_CallOneArg(g_traceback_type, text.ptr()));
    if (!told) throw py::error_already_set();
    value.attr("__traceback__") = py::none();
    value.attr("__context__") = py::none();
    value.attr("__cause__") = told;
  } catch (py::error_already_set &error) {
    error.discard_as_unraisable("hal.plugin");
  }
}

Failure take_failure(const char *hook, const char *label) {
  Failure failure;
  PyObject *exception = fetch();
  failure.status = status_of(exception);
  failure.text = describe(exception, hook);
  failure.label = label;
  failure.exception = PyRef(exception);
  return failure;
}

void announce(const Failure &failure) {
  hal::set_error_text(failure.text.c_str());
  if (failure.exception) set_cause(failure.text, failure.exception.get());
}

PyRef take_cause() {
  if (t_cause == nullptr) return PyRef();
  PyObject *exception = t_cause->exception;
  t_cause->exception = nullptr;
  return PyRef(exception);
}

void forget_cause() {
  if (t_cause == nullptr || t_cause->exception == nullptr) return;
  HookCall hook;
  take_cause();
}

hal_status take_exception(const char *hook) {
  const Failure failure = take_failure(hook, nullptr);
  announce(failure);
  return failure.status;
}

bool raise_with_cause(PyObject *type, const char *text) {
  Cause *cause = t_cause;
  if (cause == nullptr || cause->exception == nullptr) return false;
  PyObject *exception = cause->exception;
  cause->exception = nullptr;
  const bool ours = std::string(text).find(cause->text) != std::string::npos;
  if (!ours) {
    Py_DECREF(exception);
    return false;
  }
  if (!PyObject_IsInstance(exception, PyExc_Exception)) {  // KeyboardInterrupt, SystemExit: as they are
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(exception)), exception);
    Py_DECREF(exception);
    return true;
  }
  PyErr_SetString(type, text);
  PyObject *raised = fetch();
  PyException_SetCause(raised, exception);  // steals
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(raised)), raised);
  Py_DECREF(raised);
  return true;
}
