#include "models/turbo.hpp"

#include <gtest/gtest.h>

#include "models/profiles_for_test.hpp"

namespace verbtwin::models {
namespace {

HostProfile boosted() {
  HostProfile host = free_host();
  host.turbo_few_ghz = 3.0;
  host.turbo_all_ghz = 2.0;
  host.turbo_cores = 6;
  return host;
}

TEST(Turbo, FewBusyCoresAreFasterThanAFullSocket) {
  EXPECT_DOUBLE_EQ(turbo_slowness(boosted(), 1), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(turbo_slowness(boosted(), 2), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(turbo_slowness(boosted(), 4), 2.0 / 2.5);
  EXPECT_DOUBLE_EQ(turbo_slowness(boosted(), 6), 1.0);
  EXPECT_DOUBLE_EQ(turbo_slowness(boosted(), 12), 1.0);
}

TEST(Turbo, EqualClocksSwitchItOff) {
  HostProfile host = boosted();
  host.turbo_few_ghz = host.turbo_all_ghz;
  for (const int cores : {1, 2, 5, 12}) EXPECT_DOUBLE_EQ(turbo_slowness(host, cores), 1.0);
}

}  // namespace
}  // namespace verbtwin::models
