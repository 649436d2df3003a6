// Reverse-mode automatic differentiation: the graph that forward ops record, and the engine that runs it backward.
//
// A Node is one recorded op; its edges lead to the nodes that made its inputs. The engine runs nodes by descending sequence number, which
// is both a topological order and the order of summation that docs/numerics.md section 13 asks for.
#pragma once

#include <functional>
#include <optional>

#include "tensor.hpp"

namespace flow {

struct Edge {
  Ref<Node> node;
  uint32_t input_nr = 0;  // which output of that op the gradient belongs to
};

// Called with a gradient; returns its replacement, or an undefined tensor to keep it.
using Hook = std::function<Tensor(const Tensor &)>;
struct HookList {
  uint64_t next_id = 0;
  std::vector<std::pair<uint64_t, Hook>> hooks;
  std::shared_ptr<Tensor> retained;  // .grad of a non-leaf that asked for it
};

struct Node {
  explicit Node(const char *name);
  virtual ~Node() = default;
  // grads: one per output, undefined = zero. Sets out[i] for each edge i that needs it (undefined = zero).
  virtual void apply(const Tensors &grads, Tensors &out) = 0;
  // Drops saved tensors; apply then throws.
  virtual void release_saved() {}
  virtual std::string label() const { return name; }
  bool needs(size_t edge) const { return static_cast<bool>(edges[edge].node); }

  void retain() { refs_.fetch_add(1, std::memory_order_relaxed); }
  uint32_t use_count() const { return refs_.load(std::memory_order_relaxed); }
  void release();  // deletes long chains without recursion

  const char *name;
  uint64_t sequence;
  std::vector<Edge> edges;
  uint32_t num_outputs = 1;
  std::vector<std::pair<uint32_t, std::shared_ptr<HookList>>> hooks;  // by output

 private:
  std::atomic<uint32_t> refs_{0};
};

struct AutogradMeta {
  bool requires_grad = false;  // leaves only
  Tensor grad;
  Ref<Node> grad_fn;
  uint32_t output_nr = 0;
  Node *accumulator = nullptr;  // weak: the node owns the tensor
  std::shared_ptr<HookList> hooks;
  Tensor base;                   // of a view: the tensor whose storage it shares
  uint32_t history_version = 0;  // storage version for which a view's grad_fn holds
};

AutogradMeta &autograd_meta(const Tensor &t);

bool grad_enabled();
void set_grad_enabled(bool enabled);
class GradMode {
 public:
  explicit GradMode(bool enabled) : before_(grad_enabled()) { set_grad_enabled(enabled); }
  ~GradMode() { set_grad_enabled(before_); }
  GradMode(const GradMode &) = delete;

 private:
  bool before_;
};

// Where t's gradient goes: its grad_fn, its accumulator (a leaf that requires grad), or nowhere.
Edge gradient_edge(const Tensor &t);

inline bool needs_grad(const Tensor &a) { return a.defined() && a->autograd && grad_enabled() && a.requires_grad(); }
template <class... T>
bool needs_grad(const Tensor &a, const T &...rest) {
  return needs_grad(a) || needs_grad(rest...);
}

// A tensor kept for the backward pass; get() throws if it was changed in place since.
class Saved {
 public:
  Saved() = default;  // keeps nothing
  explicit Saved(const Tensor &input);
  static Saved output(const Tensor &out);  // of the op itself: kept without its history, so that there is no cycle
  Tensor get(Node &node) const;
  explicit operator bool() const { return tensor_.defined(); }

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
  bool is_output_ = false;
};

// The node of a built-in op: `backward(node, grad, out)` with one output's gradient, defined.
template <class F>
struct OpNode final : Node {
  OpNode(const char *name, F f) : Node(name), backward(std::move(f)) {}
  void apply(const Tensors &grads, Tensors &out) override {
    if (!backward)
      throw Error(HAL_ERROR_INVALID_ARGUMENT,
                  std::string("[") + name +
                      "] Trying to backward through the graph a second time: its saved tensors have been freed. Specify retain_graph=True");
    if (grads[0].defined()) (*backward)(static_cast<Node &>(*this), grads[0], out);
  }
  void release_saved() override { backward.reset(); }
  std::optional<F> backward;
};

void set_history(const Tensor &out, Ref<Node> node, uint32_t output_nr = 0);

// Records that `out` was made from `inputs`. Call only if needs_grad(inputs...).
template <class F>
void record(const Tensor &out, const char *name, std::initializer_list<const Tensor *> inputs, F &&backward) {
  auto *node = new OpNode<std::decay_t<F>>(name, std::forward<F>(backward));
  Ref<Node> ref(node);
  node->edges.reserve(inputs.size());
  for (const Tensor *t : inputs) node->edges.push_back(t->defined() && hal::is_float(t->dtype()) ? gradient_edge(*t) : Edge{});
  set_history(out, std::move(ref));
}

// A view of t (see alias), tracked for autograd and for later in-place writes. `backward`: gradient of the view -> gradient of t.
Tensor make_view(const Tensor &t, const char *name, const Dims &sizes, const Dims &strides, int64_t offset,
                 std::function<Tensor(const Tensor &)> backward);

// Gradient of as_strided(base, sizes, strides, offset): zeros with g in its place.
bool may_overlap(const Dims &sizes, const Dims &strides);
std::function<Tensor(const Tensor &)> strided_gradient(const Tensor &base, const Dims &sizes, const Dims &strides, int64_t offset);

// For in-place ops. before_inplace refuses illegal targets and returns self with its present history; after_inplace gives self the
// history of `result` (made from that), through its base if self is a view.
Tensor before_inplace(const char *op, const Tensor &self, bool other_needs_grad);
void after_inplace(const Tensor &self, const Tensor &before, const Tensor &result);

Tensor detach(const Tensor &t);  // shares storage and version

// Gradients of `roots`, started with `grads`. inputs empty: accumulated into the leaves' .grad. Else: returned per input (undefined if
// unreachable), or accumulated into just those if `accumulate`.
Tensors run_backward(const Tensors &roots, const Tensors &grads, bool retain_graph, bool create_graph, const Tensors &inputs = {},
                     bool accumulate = false);

}  // namespace flow
