// The plugin's entry: exchanges tables with the host. Also how failures are told.
#include <hal/ops.h>

#include <new>

#include "internal.hpp"

namespace cpu {
namespace {

const hal_host_api *g_host = nullptr;

hal_status init() { return HAL_OK; }

const hal_plugin_api plugin_api = {
    sizeof(hal_plugin_api),
    HAL_ABI_MAJOR,
    HAL_ABI_MINOR,
    "cpu",
    "0.1.0",
    HAL_ROLE_HOST,
    HAL_OPSET_VERSION,
    init,
    nullptr,
    &device_api,
    &memory_api,
    &stream_api,
    &event_api,
    &kernel_api,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

const hal_host_api &host() { return *g_host; }

hal_status fail(hal_status status, const std::string &text) {
  if (g_host != nullptr && g_host->set_error_text != nullptr) g_host->set_error_text(text.c_str());
  return status;
}

hal_status current_exception_status(std::string &text) noexcept {
  try {
    try {
      throw;
    } catch (const Unsupported &e) {
      text = e.what();
      return HAL_ERROR_UNSUPPORTED;
    } catch (const Invalid &e) {
      text = e.what();
      return HAL_ERROR_INVALID_ARGUMENT;
    } catch (const OutOfRange &e) {
      text = e.what();
      return HAL_ERROR_INDEX;
    } catch (const std::bad_alloc &) {
      text = "out of host memory";
      return HAL_ERROR_OUT_OF_MEMORY;
    } catch (const std::exception &e) {
      text = e.what();
      return HAL_ERROR_INTERNAL;
    } catch (...) {
      text = "unknown exception";
      return HAL_ERROR_INTERNAL;
    }
  } catch (...) {  // no memory for the text
    return HAL_ERROR_INTERNAL;
  }
}

}  // namespace cpu

extern "C" hal_status hal_plugin_entry(const hal_host_api *host, const hal_plugin_api **out) {
  if (out == nullptr || !HAL_HAS_FIELD(host, hal_host_api, log) || host->set_error_text == nullptr || host->parallel_for == nullptr)
    return HAL_ERROR_ABI_MISMATCH;
  if (host->abi_major != HAL_ABI_MAJOR) {
    host->set_error_text(
        ("the cpu plugin speaks ABI " + std::to_string(HAL_ABI_MAJOR) + ".x, the host " + std::to_string(host->abi_major) + ".x").c_str());
    return HAL_ERROR_ABI_MISMATCH;
  }
  cpu::g_host = host;
  *out = &cpu::plugin_api;
  return HAL_OK;
}
