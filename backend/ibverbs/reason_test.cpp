#include "backend/ibverbs/reason.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>

namespace verbtwin::ibverbs {
namespace {

/// While it lives, the soft limit is this.
class Limit {
 public:
  Limit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    getrlimit(resource_, &before_);
    const rlimit lower{value, before_.rlim_max};
    EXPECT_EQ(setrlimit(resource_, &lower), 0);
  }
  ~Limit() { setrlimit(resource_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

TEST(Reason, FilesThatMayBeOpen) {
  const Limit limit(RLIMIT_NOFILE, 100);
  EXPECT_EQ(reason(EMFILE),
            " (Too many open files); this process may have 100 files open: raise `ulimit -n`");
}

TEST(Reason, MemoryThatMayBeLocked) {
  const Limit limit(RLIMIT_MEMLOCK, 8192);
  EXPECT_EQ(reason(ENOMEM),
            " (Cannot allocate memory); this user may lock 8 KiB of memory: raise `ulimit -l`, under Slurm "
            "by PropagateResourceLimitsExcept=MEMLOCK in slurm.conf");
  EXPECT_EQ(reason(ENODEV), " (No such device)");
}

}  // namespace
}  // namespace verbtwin::ibverbs
