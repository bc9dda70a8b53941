#include "backend/ibverbs/reason.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace verbtwin::ibverbs {

namespace {

/// The soft limit; RLIM_INFINITY: none.
rlim_t limit_of(__rlimit_resource resource) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(resource, &limit);
  return limit.rlim_cur;
}

std::string remedy(int error) {
  if (error == EMFILE) {
    return fmt::format("; this process may have {} files open: raise `ulimit -n`", limit_of(RLIMIT_NOFILE));
  }
  const bool may_be_of_memory = error == ENOMEM || error == EAGAIN || error == EPERM;
  const rlim_t lockable_b = limit_of(RLIMIT_MEMLOCK);
  if (!may_be_of_memory || lockable_b == RLIM_INFINITY) return "";
  return fmt::format(
      "; this user may lock {} KiB of memory: raise `ulimit -l`, under Slurm by "
      "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
      lockable_b >> 10);
}

}  // namespace

std::string reason(int error) {
  return fmt::format(" ({}){}", std::strerror(error), remedy(error));
}

}  // namespace verbtwin::ibverbs
