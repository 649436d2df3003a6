// Exercises the thread pool from C++; prints "ok" or the first thing that is wrong. argv[1] names the check.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "thread_pool.hpp"

namespace {

[[noreturn]] void wrong(const std::string &text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  _exit(1);
}

struct Sum {
  std::atomic<int64_t> total{0};
  std::atomic<int64_t> smallest{INT64_MAX};
};

void add_range(void *context, int64_t begin, int64_t end) {
  auto &sum = *static_cast<Sum *>(context);
  int64_t part = 0;
  for (int64_t i = begin; i < end; ++i) part += i;
  sum.total += part;
  int64_t seen = sum.smallest;
  while (end - begin < seen && !sum.smallest.compare_exchange_weak(seen, end - begin)) {
  }
}

void check_sum(int64_t n, int64_t grain) {
  Sum sum;
  hal::parallel_for(n, grain, add_range, &sum);
  if (sum.total != n * (n - 1) / 2) wrong("a range of " + std::to_string(n) + " was not covered exactly once");
  if (n > 0 && sum.smallest < std::min(n, grain)) wrong("a piece of " + std::to_string(sum.smallest) + " is below the grain");
}

void nested(void *, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) check_sum(1000, 1);
}

void throws(void *, int64_t begin, int64_t end) {
  if (begin <= 50 && 50 < end) throw std::runtime_error("from the body");
}

volatile float tiny = 1e-39f;  // subnormal

void keeps_subnormals(void *context, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    if (tiny * 0.5f == 0.0f) *static_cast<std::atomic<bool> *>(context) = true;
}

#if defined(__x86_64__)
void set_flush_to_zero() { _mm_setcsr(_mm_getcsr() | 0x8040); }
bool flushes() { return (_mm_getcsr() & 0x8040) == 0x8040; }
#else
void set_flush_to_zero() {}
bool flushes() { return true; }
#endif

void ranges() {
  for (const int threads : {1, 2, 5, 3}) {
    hal::set_num_threads(threads);
    if (hal::num_threads() != threads) wrong("num_threads");
    for (int round = 0; round < 200; ++round)
      for (const int64_t n : {0, 1, 2, 7, 1000, 10007})
        for (const int64_t grain : {0, 1, 3, 1000}) check_sum(n, grain);
  }
}

void concurrent() {
  hal::set_num_threads(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int round = 0; round < 2000; ++round) check_sum(1000, 1);
    });
  threads.emplace_back([] {
    for (int round = 0; round < 100; ++round) hal::set_num_threads(1 + round % 4);
  });
  for (std::thread &thread : threads) thread.join();
}

void exceptions() {
  for (const int threads : {1, 2, 5}) {
    hal::set_num_threads(threads);
    bool caught = false;
    try {
      hal::parallel_for(100, 1, throws, nullptr);
    } catch (const std::runtime_error &error) {
      caught = std::strcmp(error.what(), "from the body") == 0;
    }
    if (!caught) wrong("the body's exception was lost");
    check_sum(1000, 1);
  }
}

void modes() {
  set_flush_to_zero();
  for (const int threads : {1, 2}) {
    hal::set_num_threads(threads);
    for (int64_t n : {1, 1000}) {
      std::atomic<bool> flushed{false};
      hal::parallel_for(n, 1, keeps_subnormals, &flushed);
      if (flushed) wrong("a body ran with subnormals flushed");
    }
    if (!flushes()) wrong("the caller's floating-point mode was not restored");
  }
}

void fork_body(void *, int64_t, int64_t) {}

void forks() {
  hal::set_num_threads(2);
  check_sum(10000, 1);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) hal::parallel_for(100, 1, fork_body, nullptr);
  });
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();  // perhaps in the middle of the other thread's loop
    if (child == 0) {
      check_sum(10000, 1);
      hal::set_num_threads(3);
      check_sum(10000, 1);
      _exit(0);
    }
    int status = 0;
    for (int waited = 0; waitpid(child, &status, WNOHANG) == 0; ++waited) {
      if (waited > 2000) wrong("a forked child hangs");
      usleep(10000);
    }
    if (status != 0) wrong("a forked child failed");
  }
  stop = true;
  busy.join();
}

void resize_inside(void *context, int64_t, int64_t) {
  try {
    hal::set_num_threads(2);
  } catch (const hal::Error &) {
    *static_cast<std::atomic<bool> *>(context) = true;
  }
}

void inside() {
  hal::set_num_threads(2);
  std::atomic<bool> refused{false};
  hal::parallel_for(100, 1, resize_inside, &refused);
  if (!refused) wrong("set_num_threads inside a body was accepted");
  hal::parallel_for(100, 1, nested, nullptr);
}

}  // namespace

int main(int, char **argv) {
  const std::string name = argv[1];
  if (name == "ranges")
    ranges();
  else if (name == "concurrent")
    concurrent();
  else if (name == "exceptions")
    exceptions();
  else if (name == "modes")
    modes();
  else if (name == "forks")
    forks();
  else if (name == "inside")
    inside();
  else
    wrong("unknown check " + name);
  std::printf("ok\n");
  return 0;
}
