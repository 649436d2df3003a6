// Errors: one C++ exception with the ABI's code; the bindings turn each code into its own Python exception.
#pragma once

#include <hal/base.h>

#include <stdexcept>
#include <string>

#define HAL_API __attribute__((visibility("default")))

namespace hal {

// Codes beyond the ABI's, for faults found before a plugin is asked. Mapped to ValueError, TypeError and so on in Python.
enum class ErrorKind { Status, Value, Type, Index, NotImplemented };

class HAL_API Error : public std::runtime_error {
 public:
  Error(hal_status status, const std::string &message) : std::runtime_error(message), status_(status) {}
  Error(ErrorKind kind, const std::string &message) : std::runtime_error(message), kind_(kind) {}
  hal_status status() const { return status_; }
  ErrorKind kind() const { return kind_; }

 private:
  hal_status status_ = HAL_ERROR_INVALID_ARGUMENT;
  ErrorKind kind_ = ErrorKind::Status;
};

// "HAL_ERROR_OUT_OF_MEMORY" and so on.
HAL_API const char *status_name(hal_status status);

// The text that the plugin set on this thread through hal_host_api.set_error_text; clears it. "" if none.
HAL_API std::string take_error_text();
HAL_API void set_error_text(const char *text);

// Throws Error(status, "[what] text") with the plugin's text unless status is HAL_OK.
HAL_API void check(hal_status status, const char *what);

}  // namespace hal
