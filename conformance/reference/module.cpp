// conformance._reference: the slow, obviously right evaluation of docs/numerics.md, in scalar loops.
#include "reference.hpp"

PYBIND11_MODULE(_reference, m) {
  m.doc() = "Scalar loops of docs/numerics.md. Use conformance.reference.evaluate.";
  reference::bind_casts(m);
  reference::bind_pointwise(m);
  reference::bind_reductions(m);
  reference::bind_chains(m);
  reference::bind_pooling(m);
  reference::bind_random(m);
  reference::bind_optimizer(m);
  reference::bind_normalization(m);
}
