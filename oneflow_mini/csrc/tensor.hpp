// Tensors: a typed, strided view of a shared storage.
#pragma once

#include <Python.h>
#include <dispatch.hpp>

#include <array>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace flow {

using hal::Error;
using hal::ErrorKind;

// Counted pointer to a T with retain() and release().
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(T *p) : p_(p) {  // NOLINT: implicit, shares p
    if (p_) p_->retain();
  }
  Ref(const Ref &o) : Ref(o.p_) {}
  Ref(Ref &&o) noexcept : p_(o.p_) { o.p_ = nullptr; }
  Ref &operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() {
    if (p_) p_->release();
  }
  T *get() const { return p_; }
  T *operator->() const { return p_; }
  T &operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  bool operator==(const Ref &o) const { return p_ == o.p_; }

 private:
  T *p_ = nullptr;
};

template <class Derived>
class Counted {
 public:
  void retain() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete static_cast<Derived *>(this);
  }
  uint32_t use_count() const { return refs_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> refs_{0};
};

// At most HAL_MAX_RANK integers, without a heap allocation.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> v) {
    for (int64_t x : v) push_back(x);
  }
  explicit Dims(const std::vector<int64_t> &v) {
    for (int64_t x : v) push_back(x);
  }
  Dims(const int64_t *p, size_t n) {
    for (size_t i = 0; i < n; ++i) push_back(p[i]);
  }
  Dims(const Dims &o) : n_(o.n_) { std::memcpy(v_, o.v_, n_ * sizeof(int64_t)); }
  Dims &operator=(const Dims &o) {
    n_ = o.n_;
    std::memmove(v_, o.v_, n_ * sizeof(int64_t));
    return *this;
  }
  size_t size() const { return n_; }
  bool empty() const { return n_ == 0; }
  int64_t &operator[](size_t i) { return v_[i]; }
  int64_t operator[](size_t i) const { return v_[i]; }
  int64_t back() const { return v_[n_ - 1]; }
  const int64_t *data() const { return v_; }
  const int64_t *begin() const { return v_; }
  const int64_t *end() const { return v_ + n_; }
  void push_back(int64_t x) {
    if (n_ == HAL_MAX_RANK) throw Error(ErrorKind::Value, "[tensor] too many dimensions: got more than " + std::to_string(HAL_MAX_RANK));
    v_[n_++] = x;
  }
  void insert(size_t at, int64_t x) {
    push_back(x);
    for (size_t i = n_ - 1; i > at; --i) v_[i] = v_[i - 1];
    v_[at] = x;
  }
  void erase(size_t at) {
    for (size_t i = at; i + 1 < n_; ++i) v_[i] = v_[i + 1];
    --n_;
  }
  bool operator==(const Dims &o) const { return n_ == o.n_ && std::equal(begin(), end(), o.begin()); }
  bool operator!=(const Dims &o) const { return !(*this == o); }

 private:
  uint32_t n_ = 0;
  int64_t v_[HAL_MAX_RANK];
};

// Memory shared by a tensor and its views; the version counts in-place writes.
struct Storage : Counted<Storage> {
  hal::BufferPtr buffer;
  uint64_t nbytes = 0;
  uint32_t version = 0;
};

struct AutogradMeta;
struct Node;
class Tensor;

struct TensorImpl : Counted<TensorImpl> {
  Ref<Storage> storage;
  int64_t offset = 0;  // in elements
  hal_dtype dtype = HAL_F32;
  Dims sizes, strides;
  std::unique_ptr<AutogradMeta> autograd;
  PyObject *pyobj = nullptr;  // borrowed: the Python object, while there is one
  TensorImpl();
  ~TensorImpl();
};

// A Python number on its way to becoming an operand.
struct Scalar {
  enum Kind { Bool, Int, Float } kind = Int;
  int64_t i = 0;
  double d = 0;
  Scalar(bool v) : kind(Bool), i(v), d(v) {}                         // NOLINT
  Scalar(int v) : kind(Int), i(v), d(v) {}                           // NOLINT
  Scalar(int64_t v) : kind(Int), i(v), d(static_cast<double>(v)) {}  // NOLINT
  Scalar(double v) : kind(Float), i(0), d(v) {}                      // NOLINT
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(TensorImpl *impl) : impl_(impl) {}
  bool defined() const { return static_cast<bool>(impl_); }
  TensorImpl *impl() const { return impl_.get(); }
  TensorImpl *operator->() const { return impl_.get(); }

  hal_dtype dtype() const { return impl_->dtype; }
  const Dims &sizes() const { return impl_->sizes; }
  const Dims &strides() const { return impl_->strides; }
  int64_t dim() const { return static_cast<int64_t>(impl_->sizes.size()); }
  int64_t numel() const;
  hal::Device &device() const { return impl_->storage->buffer->device(); }
  bool is_contiguous() const;
  uint64_t byte_offset() const { return static_cast<uint64_t>(impl_->offset) * hal::dtype_size(impl_->dtype); }

  bool requires_grad() const;
  Ref<Node> grad_fn() const;  // of a leaf: none
  bool is_leaf() const;
  uint32_t version() const { return impl_->storage->version; }
  void bump_version() const { ++impl_->storage->version; }

 private:
  Ref<TensorImpl> impl_;
};
using Tensors = std::vector<Tensor>;

// ---- shapes -------------------------------------------------------------------------------------------------------------------

int64_t count(const Dims &sizes);  // throws on overflow
Dims contiguous_strides(const Dims &sizes);
std::string to_string(const Dims &sizes);  // "(2, 3)"
// dim in [-rank, rank) -> [0, rank); a 0-d tensor counts as rank 1. Throws IndexError.
int64_t wrap_dim(int64_t dim, int64_t rank, const char *op);
Dims broadcast_shapes(const char *op, const Dims &a, const Dims &b);

// ---- construction (no autograd) ------------------------------------------------------------------------------------------------

Tensor empty(const Dims &sizes, hal_dtype dtype, hal::Device &device);
// Another view of t's storage. Not differentiable by itself.
Tensor alias(const Tensor &t, const Dims &sizes, const Dims &strides, int64_t offset);
hal_operand operand_of(const Tensor &t, uint32_t flags = 0);
// Bits of an immediate of this dtype. Throws if an integer doesn't fit.
uint64_t scalar_bits(const char *op, Scalar s, hal_dtype dtype);

// ---- dtypes -------------------------------------------------------------------------------------------------------------------

hal_dtype default_dtype();
void set_default_dtype(hal_dtype dtype);
hal_dtype promote(hal_dtype a, hal_dtype b);
const char *dtype_long_name(hal_dtype dtype);  // "float32"

}  // namespace flow
