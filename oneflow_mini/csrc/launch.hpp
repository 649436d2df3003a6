// From tensors to hal::run.
#pragma once

#include "ops.hpp"

namespace flow {

// One input of a launch: a tensor, an immediate, or nothing.
struct Arg {
  const Tensor *tensor = nullptr;
  hal_dtype dtype = 0;  // of the immediate
  uint64_t bits = 0;
  Arg() = default;
  Arg(const Tensor &t) : tensor(t.defined() ? &t : nullptr) {}  // NOLINT: implicit
  static Arg immediate(const char *op, Scalar s, hal_dtype dtype) {
    Arg a;
    a.dtype = dtype;
    a.bits = scalar_bits(op, s, dtype);
    return a;
  }
};

// Runs an op of the table on the tensors as they are (shapes and dtypes already as the op wants them).
void launch(uint32_t id, std::initializer_list<Arg> inputs, std::initializer_list<const Tensor *> outputs,
            const void *attributes = nullptr);

// Throws unless all tensors are on one device; returns it.
hal::Device &same_device(const char *op, std::initializer_list<const Tensor *> tensors);

// Lets other Python threads run while a large op works on this one.
class ReleaseGil {
 public:
  explicit ReleaseGil(bool wanted) : state_(wanted && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~ReleaseGil() {
    if (state_) PyEval_RestoreThread(state_);
  }
  ReleaseGil(const ReleaseGil &) = delete;

 private:
  PyThreadState *state_;
};

}  // namespace flow
