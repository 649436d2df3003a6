#include "autograd.hpp"

#include <algorithm>

#include "ops_index.hpp"

namespace flow {

namespace {
thread_local bool t_grad_enabled = true;
std::atomic<uint64_t> g_sequence{0};
}  // namespace

bool grad_enabled() { return t_grad_enabled; }
void set_grad_enabled(bool enabled) { t_grad_enabled = enabled; }

Node::Node(const char *n) : name(n), sequence(g_sequence.fetch_add(1, std::memory_order_relaxed)) {}

void Node::release() {
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // Deleting a node releases the nodes before it: queue them, or a long chain would overflow the stack.
  thread_local std::vector<Node *> *queue = nullptr;
  if (queue) {
    queue->push_back(this);
    return;
  }
  std::vector<Node *> local{this};
  queue = &local;
  while (!local.empty()) {
    Node *n = local.back();
    local.pop_back();
    delete n;
  }
  queue = nullptr;
}

AutogradMeta &autograd_meta(const Tensor &t) {
  if (!t->autograd) t->autograd = std::make_unique<AutogradMeta>();
  return *t->autograd;
}

namespace {

// The end of the line: adds to a leaf's .grad.
struct AccumulateGrad final : Node {
  explicit AccumulateGrad(const Tensor &t) : Node("AccumulateGrad"), leaf(t) { sequence = UINT64_MAX; }
  ~AccumulateGrad() override {
    if (leaf->autograd) leaf->autograd->accumulator = nullptr;
  }
  void apply(const Tensors &grads, Tensors &) override {
    Tensor g = grads[0];
    if (!g.defined()) return;
    AutogradMeta &m = autograd_meta(leaf);
    if (m.hooks) {
      const auto hooks = m.hooks->hooks;  // a copy: a hook may add hooks or remove itself
      for (const auto &[id, hook] : hooks)
        if (Tensor r = hook(g); r.defined()) g = r;
    }
    if (!m.grad.defined()) {
      m.grad = grad_enabled() ? g : own(g);
    } else if (grad_enabled()) {
      m.grad = add(m.grad, g);
    } else {
      inplace_add(m.grad, g);
    }
  }
  // Takes g over if nobody else can see its memory; `grads` of the engine holds one reference, `g` the other.
  static Tensor own(const Tensor &g) {
    const bool sole = g->use_count() <= 2 && g->storage->use_count() == 1 && g.is_contiguous() && !g->pyobj;
    return sole ? detach(g) : clone(detach(g));
  }
  Tensor leaf;
};

// Dimensions by descending stride: the order in which a dense tensor lies in memory.
Dims memory_order(const Dims &sizes, const Dims &strides) {
  Dims order = sizes;
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::vector<int64_t> v(order.begin(), order.end());
  std::stable_sort(v.begin(), v.end(), [&](int64_t a, int64_t b) { return sizes[b] != 1 && (sizes[a] == 1 || strides[a] > strides[b]); });
  return Dims(v);
}

Dims inverse(const Dims &order) {
  Dims out = order;
  for (size_t i = 0; i < order.size(); ++i) out[order[i]] = static_cast<int64_t>(i);
  return out;
}

// base with one view of it overwritten: the gradient splits in what lies outside the view and what lies inside. All of it in
// differentiable ops.
struct CopySlices final : Node {
  CopySlices(const Tensor &base, const Tensor &view)
      : Node("CopySlices"),
        order(memory_order(base.sizes(), base.strides())),
        sizes(view.sizes()),
        strides(view.strides()),
        offset(view->offset - base->offset) {}
  void apply(const Tensors &grads, Tensors &out) override {
    if (!grads[0].defined()) return;
    const Tensor g = contiguous(permute(grads[0], order));  // as base lies in memory, so that the view's strides hold
    if (needs(1)) out[1] = clone(as_strided(g, sizes, strides, offset + g->offset));
    if (!needs(0)) return;
    const Tensor outside = clone(g);
    fill_(as_strided(outside, sizes, strides, offset), Scalar(0));
    out[0] = permute(outside, inverse(order));
  }
  Dims order, sizes, strides;
  int64_t offset;
};

bool dense(const Tensor &t) {  // each element of [0, numel) used once, in some order of dimensions
  Dims sizes = t.sizes(), strides = t.strides();
  int64_t expected = 1;
  while (!sizes.empty()) {
    size_t i = 0;
    while (i < sizes.size() && !(sizes[i] == 1 || strides[i] == expected)) ++i;
    if (i == sizes.size()) return false;
    if (sizes[i] != 1) expected *= sizes[i];
    sizes.erase(i);
    strides.erase(i);
  }
  return true;
}

// A view's own grad_fn is stale after an in-place write to its storage: it then comes from the base by plain geometry.
void refresh_view_history(const Tensor &t) {
  AutogradMeta &m = *t->autograd;
  if (!m.base.defined() || m.history_version == t.version()) return;
  m.history_version = t.version();
  const Tensor base = m.base;
  if (!base.requires_grad()) return;
  auto backward = [gradient = strided_gradient(base, t.sizes(), t.strides(), t->offset)](Node &, const Tensor &g, Tensors &out) {
    out[0] = gradient(g);
  };
  Ref<Node> node(new OpNode<decltype(backward)>("AsStridedBackward", backward));
  node->edges.push_back(gradient_edge(base));
  m.grad_fn = node;
  m.output_nr = 0;
}

}  // namespace

// Whether two elements may share memory. Strides that interleave without sharing count as such too; slices never do.
bool may_overlap(const Dims &sizes, const Dims &strides) {
  std::vector<std::pair<int64_t, int64_t>> by_stride;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return false;
    if (sizes[i] > 1) by_stride.emplace_back(strides[i], sizes[i]);
  }
  std::sort(by_stride.begin(), by_stride.end());
  int64_t reach = 0;  // of the dimensions with smaller strides
  for (const auto &[stride, size] : by_stride) {
    if (stride <= reach) return true;
    reach += (size - 1) * stride;
  }
  return false;
}

std::function<Tensor(const Tensor &)> strided_gradient(const Tensor &base, const Dims &sizes, const Dims &strides, int64_t offset) {
  const bool is_dense = dense(base);
  const Dims order = memory_order(base.sizes(), base.strides());
  Dims in_memory = order;
  for (size_t i = 0; i < order.size(); ++i) in_memory[i] = base.sizes()[order[i]];
  return [=, from = base->offset](const Tensor &g) {
    if (!is_dense) throw Error(ErrorKind::NotImplemented, "[as_strided] gradient for a tensor that isn't dense: clone() it first");
    if (may_overlap(sizes, strides)) {  // an element that the view shows more than once gets the sum
      const Tensor places = as_strided(arange(Scalar(0), Scalar(1), count(in_memory), HAL_I64, g.device()), sizes, strides, offset - from);
      const Tensor sum = sum_along(reshape(g, {-1}), 0, reshape(places, {-1}), {count(in_memory)});
      return permute(view(sum, in_memory), inverse(order));
    }
    const Tensor whole = zeros(in_memory, g.dtype(), g.device());
    copy_(as_strided(whole, sizes, strides, offset - from), g);
    return permute(whole, inverse(order));
  };
}

Ref<Node> Tensor::grad_fn() const {
  if (!impl_->autograd) return {};
  refresh_view_history(*this);
  return impl_->autograd->grad_fn;
}

Edge gradient_edge(const Tensor &t) {
  if (!t->autograd) return {};
  if (Ref<Node> fn = t.grad_fn()) return {fn, t->autograd->output_nr};
  AutogradMeta &m = *t->autograd;
  if (!m.requires_grad) return {};
  if (!m.accumulator) {
    Ref<Node> node(new AccumulateGrad(t));
    m.accumulator = node.get();
    return {node, 0};
  }
  return {Ref<Node>(m.accumulator), 0};
}

void set_history(const Tensor &out, Ref<Node> node, uint32_t output_nr) {
  AutogradMeta &m = autograd_meta(out);
  m.grad_fn = std::move(node);
  m.output_nr = output_nr;
  m.requires_grad = false;
  m.history_version = out.version();
}

Saved::Saved(const Tensor &input) : tensor_(input), version_(input.version()) {}

Saved Saved::output(const Tensor &out) {
  Saved s;
  s.tensor_ = alias(out, out.sizes(), out.strides(), out->offset);
  s.version_ = out.version();
  s.is_output_ = true;
  return s;
}

Tensor Saved::get(Node &node) const {
  if (tensor_.version() != version_)
    throw Error(HAL_ERROR_INVALID_ARGUMENT,
                std::string("[") + node.name +
                    "] one of the variables needed for gradient computation has been modified by an inplace operation: " +
                    dtype_long_name(tensor_.dtype()) + " tensor of shape " + to_string(tensor_.sizes()) + " is at version " +
                    std::to_string(tensor_.version()) + ", expected version " + std::to_string(version_));
  if (!is_output_ || !grad_enabled()) return tensor_;
  Tensor t = alias(tensor_, tensor_.sizes(), tensor_.strides(), tensor_->offset);
  set_history(t, Ref<Node>(&node));
  return t;
}

Tensor make_view(const Tensor &t, const char *name, const Dims &sizes, const Dims &strides, int64_t offset,
                 std::function<Tensor(const Tensor &)> backward) {
  Tensor out = alias(t, sizes, strides, offset);
  if (needs_grad(t))
    record(out, name, {&t}, [backward = std::move(backward)](Node &, const Tensor &g, Tensors &gin) { gin[0] = backward(g); });
  AutogradMeta &m = autograd_meta(out);
  m.base = t->autograd && t->autograd->base.defined() ? t->autograd->base : t;
  m.history_version = t.version();
  return out;
}

Tensor before_inplace(const char *op, const Tensor &self, bool other_needs_grad) {
  if (!self.is_contiguous() && may_overlap(self.sizes(), self.strides()))
    throw Error(HAL_ERROR_INVALID_ARGUMENT,
                std::string("[") + op +
                    "] unsupported operation: more than one element of the written-to tensor refers to a single memory "
                    "location; clone() the tensor before the operation");
  if (!grad_enabled()) return self;
  const bool self_needs = self.requires_grad();
  const Tensor base = self->autograd ? self->autograd->base : Tensor();
  if (self_needs && self.is_leaf() && !(base.defined()))
    throw Error(HAL_ERROR_INVALID_ARGUMENT,
                std::string("[") + op + "] a leaf Variable that requires grad is being used in an in-place operation");
  if (base.defined() && base.requires_grad() && base.is_leaf())
    throw Error(HAL_ERROR_INVALID_ARGUMENT,
                std::string("[") + op + "] a view of a leaf Variable that requires grad is being used in an in-place operation");
  if (!self_needs && !other_needs_grad) return self;
  if (!hal::is_float(self.dtype())) return self;
  Tensor before = alias(self, self.sizes(), self.strides(), self->offset);
  if (self->autograd) {
    AutogradMeta &m = autograd_meta(before);
    m.grad_fn = self.grad_fn();
    m.output_nr = self->autograd->output_nr;
    m.history_version = self.version();
  }
  return before;
}

void after_inplace(const Tensor &self, const Tensor &before, const Tensor &result) {
  self.bump_version();
  if (!grad_enabled() || before.impl() == self.impl()) {
    return;
  }
  const Ref<Node> fn = result->autograd ? result->autograd->grad_fn : Ref<Node>();
  const Tensor base = self->autograd ? self->autograd->base : Tensor();
  if (!base.defined()) {
    if (fn) set_history(self, fn, result->autograd->output_nr);
    return;
  }
  if (!dense(base))
    throw Error(ErrorKind::NotImplemented,
                "[autograd] in-place write that needs a gradient to a view of a tensor that isn't dense: clone() it first");
  Ref<Node> node(new CopySlices(base, self));
  node->edges.push_back(gradient_edge(base));
  node->edges.push_back(fn ? Edge{fn, result->autograd->output_nr} : Edge{});
  set_history(base, node);
  refresh_view_history(self);
}

Tensor detach(const Tensor &t) { return alias(t, t.sizes(), t.strides(), t->offset); }

}  // namespace flow
