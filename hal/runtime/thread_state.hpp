// Private to the runtime: what each thread keeps. One struct, so that an op's path asks for the thread's storage once; plain data, so
// that it needs no constructor. Not initial-exec: a library that is loaded late can't count on room in the static TLS block.
#pragma once

#include "device.hpp"

namespace hal {

struct FrontCache;

struct ThreadState {
  static constexpr uint32_t kMaxDevices = 256;
  FrontCache *front;
  bool front_gone;                       // late in the thread's exit
  int numerics_plus_1, fallback_plus_1;  // 0: the process default holds
  Stream *current[kMaxDevices];          // nullptr: default stream. Whoever sets one keeps it alive
};

extern __thread ThreadState t_state;

}  // namespace hal
