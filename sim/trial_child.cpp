#include "sim/trial_child.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbtwin::sim {

void* map_shared(std::size_t bytes) {
  void* shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::runtime_error(fmt::format("mmap: {}", std::strerror(errno)));
  return shared;
}

TrialEnd try_in_child(const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error(fmt::format("pipe: {}", std::strerror(errno)));
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(fmt::format("fork: {}", std::strerror(errno)));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a second signal ends the parent, and nobody would end this one
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(ends[1], STDERR_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  TrialEnd ended;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) != 0;) {
    if (got > 0) ended.output.append(buffer, static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ended.took_too_long = WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU;
  return ended;
}

void limit_cpu_time(rlim_t seconds) {
  rlimit limit{};
  getrlimit(RLIMIT_CPU, &limit);
  limit.rlim_cur = std::min(seconds, limit.rlim_max);
  setrlimit(RLIMIT_CPU, &limit);
}

std::string first_line(std::string text) {
  constexpr const char* kReason = "CRITICAL] ";  // behind what a user's --log may have it write
  if (const std::size_t found = text.find(kReason); found != text.npos)
    text.erase(0, found + std::strlen(kReason));
  text.resize(std::min(text.find('\n'), text.size()));
  constexpr const char* kPreamble = "Parse error at ";
  if (const std::size_t found = text.find(kPreamble); found != text.npos)
    text.erase(0, found + std::strlen(kPreamble));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace verbtwin::sim
