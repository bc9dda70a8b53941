// What tests of a run's result share: a small, heavily contended run, and what limits one.
#pragma once

#include <string>

#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {

inline std::string limit(const json& result) {
  return result.at("bottleneck").at("resource");
}

inline constexpr const char* kSmallBank = R"({
  "cluster": {"nodes": 4, "threads": 8, "coroutines": 8},
  "protocol": {"name": "drtmh"},
  "workload": {"name": "smallbank", "accounts_per_thread": 10},
  "run": {"warmup_us": 20, "measure_us": 100, "check": "none"}
})";

}  // namespace verbtwin::tools
