#include "models/atomic_unit.hpp"

#include <gtest/gtest.h>

#include "models/profiles_for_test.hpp"

namespace verbtwin::models {
namespace {

constexpr std::int64_t kNs = 1000;

/// PCIe with so much bandwidth that only its latencies show: an operation on an idle unit takes 540 ns until
/// its old value is there, and its lock is held as long.
NicProfile fast_pcie() {
  NicProfile nic = round_nic();
  nic.pcie_gbps = 4000;
  nic.pcie_tlp_header_b = nic.pcie_completion_header_b = 0;
  return nic;
}
constexpr std::int64_t kOldNs = 40 + 500;
constexpr std::int64_t kHeldNs = kOldNs;

std::int64_t rounded_ns(Moment moment) {
  return (moment.at() + kNs / 2) / kNs;
}

struct Unit {
  explicit Unit(const NicProfile& nic) : pcie(nic), unit(nic) {}
  std::int64_t execute_ns(std::uint64_t addr) { return rounded_ns(unit.execute({0, 0}, addr, pcie).old); }
  /// Operations on words `stride` bytes apart, all ready at once: the i-th takes `each_ns` longer than the
  /// one before, give or take the nanosecond that PCIe's lanes take.
  void expect_spacing(std::uint64_t stride, std::int64_t each_ns) {
    for (std::int64_t i = 0; i < 20; ++i) {
      const std::int64_t late_ns =
          execute_ns(0x1000 + stride * static_cast<std::uint64_t>(i)) - (i * each_ns + kOldNs);
      EXPECT_GE(late_ns, 0) << i;
      EXPECT_LE(late_ns, 1) << i;
    }
  }
  Pcie pcie;
  AtomicUnit unit;
};

TEST(AtomicUnit, TakesARoundTripOverPcie) {
  Unit unit(fast_pcie());
  EXPECT_EQ(unit.execute_ns(0x1000), kOldNs);
  EXPECT_EQ(unit.unit.engine().busy_ps(), 40 * kNs);
}

TEST(AtomicUnit, OneWordSerialisesOnTheRoundTrip) {
  Unit(fast_pcie()).expect_spacing(0, kHeldNs);
}

TEST(AtomicUnit, DistinctWordsOverlap) {
  Unit(fast_pcie()).expect_spacing(8, 40);
}

TEST(AtomicUnit, OneLockSerialisesAllWords) {
  NicProfile nic = fast_pcie();
  nic.atomic_locks = 1;
  Unit(nic).expect_spacing(8, kHeldNs);
}

TEST(AtomicUnit, LocksArePickedByLowAddressBits) {
  Unit unit(fast_pcie());
  unit.execute_ns(0x1000);
  EXPECT_GE(unit.execute_ns(0x1000 + 4096), kHeldNs + kOldNs) << "the same low 12 bits";
  EXPECT_LT(unit.execute_ns(0x1000 + 4096 + 8), kHeldNs + kOldNs) << "it meets the engine's work alone";
}

TEST(AtomicUnit, ALockThatIsFreeAgainCostsNothing) {
  Unit unit(fast_pcie());
  unit.execute_ns(0x1000);
  const std::int64_t later_ns = 5000;
  EXPECT_EQ(rounded_ns(unit.unit.execute({later_ns * kNs, 0}, 0x1000, unit.pcie).old), later_ns + kOldNs);
}

/// Nobody waits for the write, but it is on its way up all the same.
TEST(AtomicUnit, AnOperationReadsItsWordAndWritesItBack) {
  Unit unit(round_nic());
  unit.execute_ns(0x1000);
  EXPECT_EQ(unit.pcie.up().busy_ps(), (20 + (8 + 20)) * kNs) << "the read's request, and the write";
  EXPECT_EQ(unit.pcie.down().busy_ps(), (8 + 20) * kNs) << "the word";
}

TEST(AtomicUnit, TellsHowLongTheHottestLockWasHeldInTheWindow) {
  Unit unit(fast_pcie());
  const std::int64_t before_ps = 100'000 * kNs, end_ps = 200'000 * kNs;  // all is done by then
  std::int64_t at_ps = before_ps;
  const auto held_ns = [&] { return (unit.unit.longest_held_ps(at_ps) + kNs / 2) / kNs; };
  for (int i = 0; i < 3; ++i) unit.execute_ns(0x1000);
  unit.execute_ns(0x1008);
  EXPECT_EQ(held_ns(), 3 * kHeldNs) << "from before the engine took the operation, and of one lock alone";
  unit.unit.begin_window(at_ps);
  EXPECT_EQ(held_ns(), 0);
  at_ps = end_ps;
  unit.execute_ns(0x1008);
  EXPECT_EQ(held_ns(), kHeldNs) << "another is the hottest now";
  unit.execute_ns(0x1000);
  EXPECT_EQ(held_ns(), kHeldNs) << "what was before the window does not count";
}

}  // namespace
}  // namespace verbtwin::models
