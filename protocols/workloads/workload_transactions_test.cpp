// What the transactions of SmallBank, TATP, YCSB and the object store do to their rows, each by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "protocols/workloads/object_store.hpp"
#include "protocols/workloads/popularity_for_test.hpp"
#include "protocols/workloads/smallbank.hpp"
#include "protocols/workloads/tatp.hpp"
#include "protocols/workloads/tpce.hpp"
#include "protocols/workloads/workload_run_for_test.hpp"
#include "protocols/workloads/ycsb.hpp"

namespace verbtwin::protocols {
namespace {

class SmallBankTransactions : public testing::Test {
 protected:
  enum : std::uint32_t { kSendPayment = 3, kWriteCheck = 5 };
  static std::unique_ptr<Workload> bank(bool inverted) {
    return make_smallbank({{"accounts_per_thread", 100},
                           {"hot_fraction", 0.04},
                           {"hot_probability", 0.9},
                           {"hot_set_inverted", inverted}},
                          1, 1);
  }
  static RecordId savings(std::uint64_t account) { return RecordId::make(0, 0, account); }
  static RecordId checking(std::uint64_t account) { return RecordId::make(1, 0, account); }
  std::int64_t cents(RecordId id) { return run.row<std::int64_t>(id); }

  std::unique_ptr<Workload> workload = bank(false);
  WorkloadRun run{*workload};
};

TEST_F(SmallBankTransactions, AnAccountPaysWhatItHas) {
  for (const std::int64_t funds : {499, 500}) {
    run.set(checking(3), funds);
    const std::int64_t before = cents(checking(4));
    const bool pays = funds == 500;
    EXPECT_EQ(run.run(*workload, {kSendPayment, {3, 4}}), pays ? Outcome::kCommitted : Outcome::kUserAborted);
    EXPECT_EQ(cents(checking(3)), pays ? 0 : funds);
    EXPECT_EQ(cents(checking(4)), before + (pays ? 500 : 0));
  }
}

TEST_F(SmallBankTransactions, ACheckBeyondBothBalancesCostsADollarMore) {
  for (const std::int64_t funds : {499, 500}) {
    run.set(savings(7), std::int64_t{300});
    run.set(checking(7), funds - 300);
    EXPECT_EQ(run.run(*workload, {kWriteCheck, {7, 8}}), Outcome::kCommitted);
    EXPECT_EQ(cents(checking(7)), funds - 300 - (funds < 500 ? 600 : 500));
    EXPECT_EQ(cents(savings(7)), 300);
  }
}

/// What the artifact does: 90 % of the picks go over all accounts, the rest to hot ones.
TEST_F(SmallBankTransactions, AnInvertedHotSetIsHardlyHot) {
  const std::unique_ptr<Workload> inverted = bank(true);
  constexpr int kDraws = 100'000;
  int hot = 0;
  pcg32 random(1);
  for (int i = 0; i < kDraws; ++i) hot += inverted->draw(random, {}).arguments[0] < 4 ? 1 : 0;
  EXPECT_NEAR(hot, (0.1 + 0.9 * 0.04) * kDraws, 0.005 * kDraws);
  expect_classes_as_drawn(*inverted, kDraws, [](const Request& request) {
    const std::uint64_t account = request.arguments[0];
    return std::vector{savings(account), checking(account)};
  });
}

/// A few subscribers, whose rows a test sets.
class TatpTransactions : public testing::Test {
 protected:
  enum : std::uint32_t { kGetNewDestination = 2, kInsertCallForwarding = 5, kDeleteCallForwarding = 6 };
  static constexpr std::uint64_t kSubscribers = 40, kRequests = 300;
  struct Facility {
    std::array<std::uint8_t, 8> active_and_data{};
  };
  struct Forwarding {
    std::array<std::uint8_t, 16> end_hour_and_number{};
  };
  static RecordId facility(std::uint64_t row) { return RecordId::make(2, 0, row); }
  static RecordId forwarding(std::uint64_t row) { return RecordId::make(3, 0, row); }

  void set_facilities(bool active) {
    for (std::uint64_t row = 0; row < 4 * kSubscribers; ++row)
      run.set(facility(row), Facility{{static_cast<std::uint8_t>(active)}});
  }
  void set_forwardings(std::uint8_t end_hour) {
    for (std::uint64_t row = 0; row < 12 * kSubscribers; ++row)
      run.set(forwarding(row), Forwarding{{end_hour}});
  }
  /// Of so many requests of a kind, with inputs of their own each.
  std::uint64_t committed(std::uint32_t type) {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < kRequests; ++i)
      sum += run.run(*workload, {type, {i % kSubscribers, i}}) == Outcome::kCommitted ? 1 : 0;
    return sum;
  }

  std::unique_ptr<Workload> workload = make_tatp({{"subscribers_per_node", kSubscribers}}, 1, 1);
  WorkloadRun run{*workload};
};

/// The text: an active facility, and a forwarding whose end is behind the end asked for, one of 24 hours.
TEST_F(TatpTransactions, ANewDestinationIsOneThatIsActiveAndStillGoesOn) {
  set_facilities(true);
  set_forwardings(25);
  EXPECT_EQ(committed(kGetNewDestination), kRequests);
  set_forwardings(1);
  EXPECT_EQ(committed(kGetNewDestination), 0U) << "no end is before the first hour";
  set_forwardings(2);
  EXPECT_NEAR(static_cast<double>(committed(kGetNewDestination)), kRequests / 24.0, 8);
  set_forwardings(25);
  set_facilities(false);
  EXPECT_EQ(committed(kGetNewDestination), 0U);
}

TEST_F(TatpTransactions, AFacilityIsActiveEightyFiveTimesOfAHundred) {
  const auto large = make_tatp({{"subscribers_per_node", 10'000}}, 1, 1);
  Facility row;
  int active = 0;
  for (std::uint64_t key = 0; key < 40'000; ++key) {
    large->initial_value(facility(key), std::as_writable_bytes(std::span(&row, 1)));
    active += row.active_and_data[0] != 0;
  }
  EXPECT_NEAR(active / 40'000.0, 0.85, 0.01);
}

TEST_F(TatpTransactions, AForwardingIsInsertedWhereItsFacilityIsAndItIsNot) {
  const auto facility_of = [](std::uint64_t row) { return row / 12 * 4 + row / 3 % 4; };
  std::set<std::uint64_t> before, after;
  std::uint64_t missing = 0;
  for (std::uint64_t row = 0; row < 12 * kSubscribers; ++row) {
    if (run.exists(forwarding(row))) before.insert(row);
    missing += run.exists(facility(facility_of(row))) ? 0 : 1;
  }
  ASSERT_GT(missing, 100U);
  const std::uint64_t inserted = committed(kInsertCallForwarding);
  for (std::uint64_t row = 0; row < 12 * kSubscribers; ++row) {
    if (!run.exists(forwarding(row))) continue;
    after.insert(row);
    EXPECT_TRUE(run.exists(facility(facility_of(row)))) << row;
  }
  EXPECT_GT(inserted, 40U);
  EXPECT_EQ(after.size(), before.size() + inserted);
  const std::uint64_t deleted = committed(kDeleteCallForwarding);
  std::uint64_t left = 0;
  for (std::uint64_t row = 0; row < 12 * kSubscribers; ++row) left += run.exists(forwarding(row)) ? 1 : 0;
  EXPECT_GT(deleted, 40U);
  EXPECT_EQ(left, after.size() - deleted);
}

class YcsbTransactions : public testing::Test {
 protected:
  enum : std::uint32_t { kRead, kUpdate, kInsert, kScan };
  static std::unique_ptr<Workload> ycsb(const char* mix, std::uint64_t records, int nodes = 1) {
    return make_ycsb({{"mix", mix}, {"theta", 0.5}, {"records_per_node", records}, {"value_b", 8}}, nodes, 1);
  }
};

/// Its leaves first, all of them together, then its keys, then the check of both.
TEST_F(YcsbTransactions, AScanLooksAtTheLeavesOfItsKeysTogether) {
  const std::unique_ptr<Workload> workload = ycsb("E", 500, 2);
  WorkloadRun run(*workload, 2);
  // Keys 10 to 109 have the places 20, 22, ... 218, in the leaves 0 to 3.
  ASSERT_EQ(run.run(*workload, {kScan, {10, 100}}), Outcome::kCommitted);
  EXPECT_EQ(run.waits(), 3);
  std::set<std::uint64_t> leaves, keys;
  for (const Access& access : run.history()[0].reads) {
    const std::uint64_t number = access.record.key() * 2 + access.record.partition();
    (access.record.table() == 0 ? keys : leaves).insert(number);
  }
  EXPECT_EQ(leaves, (std::set<std::uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(keys.size(), 100U);
  EXPECT_EQ(*keys.begin(), 10U);
  EXPECT_EQ(*keys.rbegin(), 109U);
}

/// Behind what the worker itself has inserted comes what was loaded last; of inserts that end in another
/// order than they began, those behind one that is still under way are not there yet.
TEST_F(YcsbTransactions, TheLatestAreTheOwnInsertsThenWhatWasLoaded) {
  constexpr std::uint64_t kRecords = 50;
  const std::unique_ptr<Workload> workload = ycsb("D", kRecords);
  WorkloadRun run(*workload);
  pcg32 random(1);
  std::vector<Request> inserts;
  while (inserts.size() < 4) {
    const Request request = workload->draw(random, {});
    if (request.type == kInsert) inserts.push_back(request);
  }
  std::set<std::size_t> loaded;  // by how late
  const auto own = [&] {
    std::set<std::uint64_t> keys;
    for (int i = 0; i < 10'000; ++i) {
      const Request request = workload->draw(random, {});
      if (request.type != kRead) continue;
      const std::uint64_t key = request.arguments[0];
      if (key >= kRecords) {
        keys.insert(key);
      } else {
        loaded.insert(workload->class_of(RecordId::make(0, 0, key)));
      }
    }
    return keys;
  };
  const auto insert = [&](std::size_t i) {
    EXPECT_EQ(run.run(*workload, inserts[i]), Outcome::kCommitted);
    return inserts[i].arguments[0];
  };
  const std::uint64_t first = insert(0), third = insert(2), fourth = insert(3);
  EXPECT_EQ(own(), std::set{first});
  const std::uint64_t second = insert(1);
  EXPECT_EQ(own(), (std::set{first, second, third, fourth}));
  EXPECT_TRUE(loaded.contains(0)) << "the last of them";
}

/// Leaf 0 has the keys 0, 500, 1, 501 ... of 500 that are loaded; the worker's first insert is among the odd.
TEST_F(YcsbTransactions, RowsAndIndexMustTellTheSame) {
  const std::unique_ptr<Workload> workload = ycsb("E", 500);
  const RecordId row = RecordId::make(0, 0, 507), leaf = RecordId::make(1, 0, 0);
  History history;
  const Access written[] = {{row, 1, 0}, {leaf, 1, 0}};
  history.commit({}, written, 0);
  const History* histories[] = {&history};
  const auto violations = [&](bool in_index, bool there) {
    const auto value = [&](RecordId record, std::span<std::byte> bytes) {
      const bool exists = workload->initial_value(record, bytes);
      if (record == leaf && in_index) bytes[1] |= std::byte{0x80};  // place 15
      return record == row ? there : exists;
    };
    const CheckReport report = workload->check_invariant(Histories(histories), value);
    return std::ranges::count_if(report.examples,
                                 [](const std::string& text) { return text.starts_with("key 507 is "); });
  };
  EXPECT_EQ(violations(true, true), 0);
  EXPECT_EQ(violations(true, false), 1);
  EXPECT_EQ(violations(false, true), 1);
  EXPECT_EQ(violations(false, false), 0);
}

/// A customer has five accounts on average, an account ten holdings; each security's price is read once.
TEST(TpceTransactions, ReadACustomersAccountsHoldingsAndPrices) {
  enum : std::uint32_t { kCustomer, kAccount, kHolding, kLastTrade };
  const std::unique_ptr<Workload> workload = make_tpce({{"customers_per_node", 5000}}, 1, 1);
  WorkloadRun run(*workload);
  pcg32 random(1);
  constexpr std::size_t kTransactions = 2000;
  std::array<double, 4> reads{};
  std::size_t most = 0;
  for (std::size_t i = 0; i < kTransactions; ++i) {
    ASSERT_EQ(run.run(*workload, workload->draw(random, {0, 0})), Outcome::kCommitted);
    const auto all = run.history()[i].reads;
    for (const Access& read : all) ++reads[read.record.table()];
    most = std::max(most, all.size());
  }
  EXPECT_LE(most, workload->records_max());
  EXPECT_EQ(reads[kCustomer], kTransactions);
  EXPECT_NEAR(reads[kAccount] / reads[kCustomer], 5, 0.2);
  EXPECT_NEAR(reads[kHolding] / reads[kAccount], 10, 0.25);
  // Of 3,425 securities some are held in two accounts.
  EXPECT_NEAR(reads[kLastTrade] / reads[kHolding], 0.99, 0.01);
}

TEST(ObjectStoreTransactions, ReadAndUpdateAsManyObjectsAsAskedFor) {
  const auto workload =
      make_object_store({{"reads", 4}, {"updates", 2}, {"objects_per_thread", 100}, {"value_b", 40}}, 1, 1);
  WorkloadRun run(*workload);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ASSERT_EQ(run.run(*workload, {1, {seed, 7}}), Outcome::kCommitted);
    EXPECT_EQ(run.history()[seed].reads.size(), 4U);
    EXPECT_EQ(run.history()[seed].writes.size(), 2U);
    EXPECT_EQ(run.history()[seed].effect, 2);
  }
}

}  // namespace
}  // namespace verbtwin::protocols
