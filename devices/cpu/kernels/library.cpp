// The kernel library's one export.
#include "kernel.hpp"

namespace cpu {
namespace {

const hal_host_api *g_host = nullptr;

}  // namespace

const hal_host_api &host() { return *g_host; }

}  // namespace cpu

extern "C" __attribute__((visibility("default"))) const cpu::KernelRows *hal_cpu_kernels(const hal_host_api *host) {
  using namespace cpu;
  g_host = host;
  static const auto &rows = *new KernelRows([] {
    KernelRows all;
    using Add = void (*)(KernelRows &);
    for (Add add : {Add{add_pointwise}, Add{add_data}, Add{add_reductions}, Add{add_normalization}, Add{add_layer_norm},
                    Add{add_batch_norm}, Add{add_average_pooling}, Add{add_loss}, Add{add_random}, Add{add_optimizer}, Add{add_matmul},
                    Add{add_convolution}, Add{add_pooling}, Add{add_indexing}, Add{add_order}})
      add(all);
    return all;
  }());
  return &rows;
}
