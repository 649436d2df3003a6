// What the plugin and its kernel libraries share: a kernel is made from an op at prepare, and run on plain pointers at launch.
//
// Each file of kernels/ is compiled once per instruction set into a library of its own (libhal_cpu_kernels_<isa>.so), which exports one
// function, hal_cpu_kernels. The plugin picks the library at load. So no inline function of one instruction set leaks into another.
#pragma once

#include <hal/kernel.h>
#include <hal/ops.h>
#include <hal/plugin.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace cpu {

// Thrown by factories: prepare answers HAL_ERROR_UNSUPPORTED or HAL_ERROR_INVALID_ARGUMENT with this text.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Invalid : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Thrown by a running kernel: HAL_ERROR_INDEX.
struct OutOfRange : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // data[i]: address of element [0, ..., 0] of operand i; for an immediate the address of its value (in the operand's dtype); nullptr if
  // absent. Runs on the calling thread and, through host().parallel_for, on the pool. Throws OutOfRange for an index that is.
  virtual void run(void *const *data, void *workspace) const = 0;
  uint64_t workspace_size = 0;  // bytes, 64-byte aligned at run
};

using Factory = std::unique_ptr<Kernel> (*)(const hal_op &op);

struct KernelRow {
  const char *op;
  uint32_t dtypes;  // HAL_DTYPE_BIT of each dtype of the op's primary operand
  Factory make;
};
using KernelRows = std::vector<KernelRow>;

// Set before the first kernel runs, in each kernel library.
const hal_host_api &host();

// A loop over [0, n) on the pool, body(begin, end). Pieces have at least `grain` elements; results must not depend on the cut.
template <class Body>
void parallel_for(int64_t n, int64_t grain, Body &&body) {
  if (n <= 0) return;
  if (n <= grain) {
    body(int64_t{0}, n);
    return;
  }
  host().parallel_for(
      n, grain, [](void *context, int64_t begin, int64_t end) { (*static_cast<std::remove_reference_t<Body> *>(context))(begin, end); },
      &body);
}

inline int64_t element_count(const hal_operand &o) {
  int64_t n = 1;
  for (uint32_t i = 0; i < o.rank; ++i) n *= o.dims[i];
  return n;
}

inline bool is_contiguous(const hal_operand &o) {
  int64_t expected = 1;
  for (int i = int(o.rank) - 1; i >= 0; --i) {
    if (o.dims[i] != 1 && o.strides[i] != expected) return false;
    expected *= o.dims[i];
  }
  return true;
}

// The op's attribute struct, copied; fields that the caller's struct doesn't reach are 0. Throws Unsupported on an unknown non-zero tail.
template <class T>
T attributes(const hal_op &op) {
  T out{};
  if (op.attributes == nullptr) return out;
  if (!HAL_ATTRIBUTES_TAIL_CLEAR(op.attributes, sizeof(T)))
    throw Unsupported(std::string("[") + op.name + "] attributes of a newer op set");
  const uint32_t size = *static_cast<const uint32_t *>(op.attributes);
  __builtin_memcpy(&out, op.attributes, size < sizeof(T) ? size : sizeof(T));
  return out;
}

// One per file of kernels/; collected by kernels/library.cpp.
void add_pointwise(KernelRows &rows);
void add_data(KernelRows &rows);
void add_reductions(KernelRows &rows);
void add_normalization(KernelRows &rows);
void add_layer_norm(KernelRows &rows);
void add_batch_norm(KernelRows &rows);
void add_average_pooling(KernelRows &rows);
void add_loss(KernelRows &rows);
void add_random(KernelRows &rows);
void add_optimizer(KernelRows &rows);
void add_matmul(KernelRows &rows);
void add_convolution(KernelRows &rows);
void add_pooling(KernelRows &rows);
void add_indexing(KernelRows &rows);
void add_order(KernelRows &rows);

// Exported by each kernel library.
using KernelsFunction = const KernelRows *(*)(const hal_host_api *host);

}  // namespace cpu
