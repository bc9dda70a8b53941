#include "tools/run/catalog.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "backend/user_error.hpp"
#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

TEST(Catalog, MostAllowedIsAcceptedAndOneMoreIsNot) {
  const auto loaded = [](const std::string& path, int value) {
    return load(R"({"cluster": {"nodes": 2}, "workload": {"name": "primitive"}})",
                {path + "=" + std::to_string(value)});
  };
  for (const char* path : {"cluster.nodes", "cluster.qps_per_peer", "workload.payload_b",
                           "workload.outstanding", "workload.signal_interval"}) {
    const int most = most_allowed(path, "primitive");
    EXPECT_NO_THROW(loaded(path, most)) << path;
    EXPECT_THROW(loaded(path, most + 1), UserError) << path;
  }
  EXPECT_THROW(most_allowed("workload.outstanding", "no such"), std::out_of_range);
}

}  // namespace
}  // namespace verbtwin::tools
