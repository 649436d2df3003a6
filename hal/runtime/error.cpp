// Status names and the thread's error text.
#include "error.hpp"

namespace hal {

namespace {

std::string &thread_text() {
  thread_local std::string text;
  return text;
}

// What a code means, for plugins that give no text.
const char *status_meaning(hal_status status) {
  switch (status) {
    case HAL_OK:
      return "success";
    case HAL_NOT_READY:
      return "not ready";
    case HAL_ERROR_INVALID_ARGUMENT:
      return "invalid argument";
    case HAL_ERROR_OUT_OF_MEMORY:
      return "out of memory";
    case HAL_ERROR_UNSUPPORTED:
      return "not supported by this device";
    case HAL_ERROR_DEVICE_LOST:
      return "the device is lost";
    case HAL_ERROR_TIMEOUT:
      return "timed out";
    case HAL_ERROR_LAUNCH_FAILED:
      return "work on the device failed";
    case HAL_ERROR_UNAVAILABLE:
      return "not available";
    case HAL_ERROR_INTERNAL:
      return "internal error of the plugin";
    case HAL_ERROR_ABI_MISMATCH:
      return "the plugin's ABI version doesn't match";
    case HAL_ERROR_INDEX:
      return "an index is out of range";
    default:
      return "unknown status";
  }
}

}  // namespace

const char *status_name(hal_status status) {
  switch (status) {
    case HAL_OK:
      return "HAL_OK";
    case HAL_NOT_READY:
      return "HAL_NOT_READY";
    case HAL_ERROR_INVALID_ARGUMENT:
      return "HAL_ERROR_INVALID_ARGUMENT";
    case HAL_ERROR_OUT_OF_MEMORY:
      return "HAL_ERROR_OUT_OF_MEMORY";
    case HAL_ERROR_UNSUPPORTED:
      return "HAL_ERROR_UNSUPPORTED";
    case HAL_ERROR_DEVICE_LOST:
      return "HAL_ERROR_DEVICE_LOST";
    case HAL_ERROR_TIMEOUT:
      return "HAL_ERROR_TIMEOUT";
    case HAL_ERROR_LAUNCH_FAILED:
      return "HAL_ERROR_LAUNCH_FAILED";
    case HAL_ERROR_UNAVAILABLE:
      return "HAL_ERROR_UNAVAILABLE";
    case HAL_ERROR_INTERNAL:
      return "HAL_ERROR_INTERNAL";
    case HAL_ERROR_ABI_MISMATCH:
      return "HAL_ERROR_ABI_MISMATCH";
    case HAL_ERROR_INDEX:
      return "HAL_ERROR_INDEX";
    default:
      return "HAL_ERROR_UNKNOWN";
  }
}

std::string take_error_text() {
  std::string text;
  text.swap(thread_text());
  return text;
}

void set_error_text(const char *text) {
  if (text != nullptr)
    thread_text() = text;
  else
    thread_text().clear();
}

void check(hal_status status, const char *what) {
  if (status == HAL_OK) return;
  std::string text = take_error_text();
  if (text.empty()) text = std::string(status_meaning(status)) + " (" + status_name(status) + " = " + std::to_string(status) + ")";
  throw Error(status, std::string("[") + what + "] " + text);
}

}  // namespace hal
