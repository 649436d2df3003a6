// Private to the runtime: who owns the open devices.
#pragma once

#include <map>

#include "device.hpp"

namespace hal {

class DeviceRegistry {
 public:
  static DeviceRegistry &get();
  Device *find(const std::string &name);  // "cpu:0"; nullptr if not open
  Device &open(std::shared_ptr<Plugin> plugin, uint32_t index, const std::string &options);
  std::vector<Device *> all();  // by slot
  void shutdown();

 private:
  friend class ForkLocks;
  Mutex open_mutex_;                         // held while a plugin opens a device
  Mutex mutex_;                              // of the map
  std::map<std::string, Device *> devices_;  // never deleted: others may hold references during exit
  bool closed_ = false;
};

}  // namespace hal
