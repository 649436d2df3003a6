// The backward pass.
#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "autograd.hpp"
#include "ops.hpp"

namespace flow {

namespace {

struct Later {
  bool operator()(const Ref<Node> &a, const Ref<Node> &b) const { return a->sequence < b->sequence; }
};

// What is known of a node during one pass.
struct Task {
  uint32_t dependencies = 0;  // edges into it that have not delivered yet
  bool needed = true;         // leads to an input of interest
  Tensors grads;              // sums so far, per output
};

void deliver(Tensors &grads, uint32_t nr, const Tensor &g) {
  if (!g.defined()) return;
  if (grads.size() <= nr) grads.resize(nr + 1);
  grads[nr] = grads[nr].defined() ? add(grads[nr], g) : g;
}

using Tasks = std::unordered_map<Node *, Task>;

// Counts edges below the roots; marks with `needed` the nodes from which a target is reached (all, if there is no target).
void explore(const std::vector<Ref<Node>> &roots, const std::unordered_set<Node *> &targets, Tasks &tasks) {
  std::vector<std::pair<Node *, size_t>> stack;
  for (const Ref<Node> &r : roots) {
    if (tasks.count(r.get())) continue;
    tasks[r.get()].needed = targets.empty() || targets.count(r.get());
    stack.emplace_back(r.get(), 0);
    while (!stack.empty()) {
      auto &[node, i] = stack.back();
      if (i == node->edges.size()) {
        stack.pop_back();
        for (const Edge &e : node->edges)
          if (e.node && tasks[e.node.get()].needed) tasks[node].needed = true;
        continue;
      }
      Node *next = node->edges[i++].node.get();
      if (!next) continue;
      const bool seen = tasks.count(next) != 0;
      Task &t = tasks[next];
      ++t.dependencies;
      if (!seen) {
        t.needed = targets.empty() || targets.count(next);
        stack.emplace_back(next, 0);
      }
    }
  }
}

void run_hooks(Node &node, Tensors &grads) {
  for (auto &[nr, list] : node.hooks) {
    if (nr >= grads.size() || !grads[nr].defined()) continue;
    for (size_t i = 0; i < list->hooks.size(); ++i)
      if (Tensor r = list->hooks[i].second(grads[nr]); r.defined()) grads[nr] = r;
    if (list->retained) {
      Tensor &slot = *list->retained;
      slot = slot.defined() ? add(slot, grads[nr]) : (grad_enabled() ? grads[nr] : clone(grads[nr]));
    }
  }
}

}  // namespace

Tensors run_backward(const Tensors &roots, const Tensors &grads, bool retain_graph, bool create_graph, const Tensors &inputs,
                     bool accumulate) {
  GradMode mode(create_graph);
  std::vector<Ref<Node>> root_nodes;
  std::vector<Edge> root_edges, input_edges;
  for (const Tensor &r : roots) {
    root_edges.push_back(gradient_edge(r));
    if (!root_edges.back().node)
      throw Error(HAL_ERROR_INVALID_ARGUMENT, "[backward] element 0 of tensors does not require grad and does not have a grad_fn");
    root_nodes.push_back(root_edges.back().node);
  }
  std::unordered_set<Node *> targets;
  for (const Tensor &t : inputs) {
    input_edges.push_back(gradient_edge(t));
    if (!input_edges.back().node) throw Error(HAL_ERROR_INVALID_ARGUMENT, "[grad] One of the differentiated Tensors does not require grad");
    targets.insert(input_edges.back().node.get());
  }
  Tasks tasks;
  explore(root_nodes, targets, tasks);

  std::priority_queue<Ref<Node>, std::vector<Ref<Node>>, Later> ready;
  for (size_t i = 0; i < root_edges.size(); ++i) deliver(tasks[root_nodes[i].get()].grads, root_edges[i].input_nr, grads[i]);
  std::unordered_set<Node *> started;
  for (const Ref<Node> &r : root_nodes)
    if (tasks[r.get()].dependencies == 0 && started.insert(r.get()).second) ready.push(r);

  Tensors captured(inputs.size());
  while (!ready.empty()) {
    Ref<Node> node = ready.top();
    ready.pop();
    auto found = tasks.find(node.get());
    Task task = std::move(found->second);
    tasks.erase(found);
    task.grads.resize(std::max<size_t>(node->num_outputs, task.grads.size()));
    Tensors out(node->edges.size());
    const bool any = std::any_of(task.grads.begin(), task.grads.end(), [](const Tensor &g) { return g.defined(); });
    if (task.needed && any) {
      const bool leaf = node->sequence == UINT64_MAX;
      if (!leaf) run_hooks(*node, task.grads);
      bool target = false;
      for (size_t i = 0; i < input_edges.size(); ++i) {
        if (input_edges[i].node.get() != node.get()) continue;
        target = true;
        captured[i] = task.grads[input_edges[i].input_nr];
      }
      bool below = inputs.empty() || (leaf && target && accumulate);
      if (!inputs.empty())
        for (const Edge &e : node->edges) below |= e.node && tasks[e.node.get()].needed;
      if (below) {
        node->apply(task.grads, out);
        if (!retain_graph && !leaf) node->release_saved();
      }
    }
    task.grads.clear();
    for (size_t i = 0; i < node->edges.size(); ++i) {
      const Edge &e = node->edges[i];
      if (!e.node) continue;
      Task &next = tasks[e.node.get()];
      if (next.needed) deliver(next.grads, e.input_nr, out[i]);
      out[i] = Tensor();
      if (--next.dependencies == 0) ready.push(e.node);
    }
  }
  if (accumulate)
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].is_leaf() || !captured[i].defined()) continue;
      AutogradMeta &m = autograd_meta(inputs[i]);
      m.grad = m.grad.defined() ? add(m.grad, captured[i]) : captured[i];
    }
  return captured;
}

}  // namespace flow
