// Runs hal_probe (hal/probe/main.cpp), which lies beside this library, and turns what it reports and how it ends into a verdict.
#include "probe.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "probe_cache.hpp"

extern char **environ;

namespace hal {

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMaxOutput = 64 * 1024;

constexpr double kDefaultTimeout = 10;

double timeout_seconds() {
  const char *text = std::getenv("HAL_PROBE_TIMEOUT");
  if (text != nullptr) {
    char *end = nullptr;
    const double value = std::strtod(text, &end);
    if (end != text && *end == '\0' && std::isfinite(value) && value > 0 && value < 1e6) return value;
  }
  return kDefaultTimeout;
}

std::string probe_program() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void *>(&probe_program), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string library = info.dli_fname;
  const size_t slash = library.rfind('/');
  return slash == std::string::npos ? "" : library.substr(0, slash) + "/hal_probe";
}

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    // Out of the way of descriptors 0 to 3, which the child's file actions overwrite.
    read = fcntl(ends[0], F_DUPFD_CLOEXEC, 10);
    write = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Pipe() {
    close_end(read);
    close_end(write);
  }
  static void close_end(int &fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

struct Outcome {
  std::string report, errors;
  bool started = false, timed_out = false;
  int status = -1;  // as waitpid tells; -1 if someone else reaped the child
};

// Appends what is there; false at the end of the pipe.
bool drain(int fd, std::string &text) {
  char buffer[4096];
  const ssize_t n = read(fd, buffer, sizeof buffer);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (text.size() < kMaxOutput) text.append(buffer, static_cast<size_t>(n));
  return n > 0;
}

Outcome run_child(const std::string &program, const std::string &path, double seconds) {
  Outcome outcome;
  Pipe report, errors;
  if (report.write < 0 || report.read < 0 || errors.write < 0 || errors.read < 0) return outcome;
  fcntl(report.read, F_SETFL, O_NONBLOCK);
  fcntl(errors.read, F_SETFL, O_NONBLOCK);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, errors.write, 2);
  posix_spawn_file_actions_adddup2(&actions, report.write, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);  // so that a timeout also ends what the plugin started
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t child = -1;
  char *arguments[] = {const_cast<char *>(program.c_str()), const_cast<char *>(path.c_str()), nullptr};
  const int failed = posix_spawn(&child, program.c_str(), &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return outcome;
  outcome.started = true;
  Pipe::close_end(report.write);
  Pipe::close_end(errors.write);

  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  bool report_open = true, errors_open = true, running = true;
  while (running) {
    pollfd fds[2] = {{report_open ? report.read : -1, POLLIN, 0}, {errors_open ? errors.read : -1, POLLIN, 0}};
    // With both pipes closed the child is about to be gone; with open ones a grandchild may hold them, so look at the child too.
    poll(fds, 2, report_open || errors_open ? 20 : 1);
    if (fds[0].revents != 0) report_open = drain(report.read, outcome.report);
    if (fds[1].revents != 0) errors_open = drain(errors.read, outcome.errors);
    const pid_t reaped = waitpid(child, &outcome.status, WNOHANG);
    if (reaped == child || (reaped < 0 && errno == ECHILD)) {
      if (reaped != child) outcome.status = -1;
      running = false;
    } else if (Clock::now() >= deadline) {
      outcome.timed_out = true;
      kill(-child, SIGKILL);
      kill(child, SIGKILL);
      while (waitpid(child, &outcome.status, 0) < 0 && errno == EINTR) {
      }
      running = false;
    }
  }
  for (int i = 0; i < 16 && report_open; ++i) {
    const size_t before = outcome.report.size();
    report_open = drain(report.read, outcome.report) && outcome.report.size() > before;
  }
  drain(errors.read, outcome.errors);
  return outcome;
}

std::string last_line(const std::string &text) {
  const size_t end = text.find_last_not_of(" \n\r\t");
  if (end == std::string::npos) return "";
  const size_t start = text.rfind('\n', end);
  std::string line = text.substr(start == std::string::npos ? 0 : start + 1, end - (start == std::string::npos ? 0 : start + 1) + 1);
  if (line.size() > 300) line.resize(300);
  return line;
}

std::string signal_name(int number) {
  switch (number) {
    case SIGSEGV:
      return "SIGSEGV (invalid memory access)";
    case SIGABRT:
      return "SIGABRT (abort)";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL (illegal instruction)";
    case SIGKILL:
      return "SIGKILL";
    default:
      return "signal " + std::to_string(number);
  }
}

ProbeVerdict judge(const Outcome &outcome, double seconds) {
  ProbeVerdict verdict;
  std::string stage = "start";
  std::istringstream lines(outcome.report);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t space = line.find(' ');
    const std::string key = line.substr(0, space);
    const std::string value = space == std::string::npos ? "" : line.substr(space + 1);
    if (key == "stage") stage = value;
    if (key == "id") verdict.id = value;
    if (key == "version") verdict.version = value;
    if (key == "roles") verdict.roles = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    if (key == "devices") verdict.devices = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    if (key == "ok") verdict.ok = true;
    if (key == "fail") {
      verdict.polite = true;
      verdict.reason = value;
    }
  }
  if (verdict.ok || verdict.polite) return verdict;
  std::ostringstream reason;
  if (outcome.timed_out)
    reason << "it did not return from " << stage << " within " << seconds << " s (probed in a child process; limit: HAL_PROBE_TIMEOUT)";
  else if (outcome.status != -1 && WIFSIGNALED(outcome.status))
    reason << "it crashed in " << stage << " with " << signal_name(WTERMSIG(outcome.status)) << " (probed in a child process)";
  else if (outcome.status != -1 && WIFEXITED(outcome.status))
    reason << "it ended the process in " << stage << " with exit status " << WEXITSTATUS(outcome.status) << " (probed in a child process)";
  else
    reason << "its probe in a child process ended in " << stage << " without a verdict";
  const std::string said = last_line(outcome.errors);
  if (!said.empty()) reason << "; it said: " << said;
  verdict.reason = reason.str();
  return verdict;
}

}  // namespace

ProbeVerdict probe(const std::string &path) {
  ProbeVerdict verdict;
  if (read_cached_verdict(path, verdict)) {
    if (!verdict.ok) verdict.reason += "; from an earlier probe, `hal doctor --probe` or HAL_PROBE_CACHE=refresh asks again";
    return verdict;
  }
  const std::string program = probe_program();
  if (program.empty() || access(program.c_str(), X_OK) != 0) {
    verdict.reason = "it can't be probed: the program hal_probe is missing beside the runtime library (" + program + "); reinstall hal";
    return verdict;
  }
  const double seconds = timeout_seconds();
  const Outcome outcome = run_child(program, path, seconds);
  if (!outcome.started) {
    verdict.reason = std::string("it can't be probed: no child process could be started (") + std::strerror(errno) + ")";
    return verdict;
  }
  verdict = judge(outcome, seconds);
  // What failed politely may work next time, and what ran out of time may have met a busy machine.
  if (!verdict.polite && !outcome.timed_out) write_cached_verdict(path, verdict);
  return verdict;
}

}  // namespace hal
