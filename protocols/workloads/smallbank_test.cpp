#include "protocols/workloads/smallbank.hpp"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>

namespace verbtwin::protocols {
namespace {

using nlohmann::json;

constexpr int kDraws = 1'000'000;

std::unique_ptr<Workload> bank(std::uint64_t accounts_per_thread, int nodes = 4, int threads = 2,
                               double hot_fraction = 0.04, double hot_probability = 0.9) {
  return make_smallbank({{"name", "smallbank"},
                         {"accounts_per_thread", accounts_per_thread},
                         {"hot_fraction", hot_fraction},
                         {"hot_probability", hot_probability}},
                        nodes, threads);
}

template <typename Visit>
void for_each_record(const Workload& workload, int nodes, Visit&& visit) {
  const std::vector<TableSpec> tables = workload.tables();
  for (std::uint32_t table = 0; table < tables.size(); ++table) {
    for (std::uint32_t node = 0; node < static_cast<std::uint32_t>(nodes); ++node) {
      for (std::uint64_t key = 0; key < tables[table].records; ++key) visit(RecordId::make(table, node, key));
    }
  }
}

TEST(SmallBank, DrawsTheStandardMix) {
  const auto workload = bank(10'000);
  const std::array<double, 6> mix = {0.15, 0.15, 0.15, 0.25, 0.15, 0.15};
  ASSERT_EQ(workload->transaction_names().size(), mix.size());
  EXPECT_EQ(workload->transaction_names()[0], "amalgamate");
  EXPECT_EQ(workload->transaction_names()[3], "send_payment");
  std::array<int, 6> drawn{};
  pcg32 random(1);
  for (int i = 0; i < kDraws; ++i) {
    const Request request = workload->draw(random, {});
    ASSERT_LT(request.type, mix.size());
    ++drawn[request.type];
  }
  for (std::size_t type = 0; type < mix.size(); ++type) {
    EXPECT_NEAR(drawn[type] / (mix[type] * kDraws), 1, 0.01) << workload->transaction_names()[type];
  }
}

TEST(SmallBank, PicksHotAccountsNineTimesOfTen) {
  constexpr std::uint64_t kAccounts = 80'000, kHot = 3'200;
  const auto workload = bank(10'000);
  std::array<int, 2> hot{};
  std::array<int, 4> hot_quarters{}, cold_quarters{};
  pcg32 random(2);
  for (int i = 0; i < kDraws; ++i) {
    const Request request = workload->draw(random, {});
    const std::uint64_t first = request.arguments[0], second = request.arguments[1];
    ASSERT_LT(first, kAccounts);
    ASSERT_LT(second, kAccounts);
    ASSERT_NE(first, second);
    hot[0] += first < kHot;
    hot[1] += second < kHot;
    if (first < kHot) {
      ++hot_quarters[first * 4 / kHot];
    } else {
      ++cold_quarters[(first - kHot) * 4 / (kAccounts - kHot)];
    }
  }
  EXPECT_NEAR(hot[0] / (0.9 * kDraws), 1, 0.01);
  EXPECT_NEAR(hot[1] / (0.9 * kDraws), 1, 0.01);
  for (const int quarter : hot_quarters) EXPECT_NEAR(quarter / (0.225 * kDraws), 1, 0.01);
  for (const int quarter : cold_quarters) EXPECT_NEAR(quarter / (0.025 * kDraws), 1, 0.03);
}

TEST(SmallBank, ExtremesOfTheSkewAreDrawnToo) {
  struct Case {
    std::uint64_t accounts_per_thread;
    int nodes, threads;
    double hot_fraction, hot_probability;
  };
  for (const Case& c :
       {Case{2, 1, 1, 0.04, 0.9}, Case{2, 1, 1, 0, 0}, Case{3, 1, 1, 1, 1}, Case{100, 2, 1, 0, 0},
        Case{100, 2, 1, 0, 1}, Case{100, 2, 1, 1, 0}, Case{100, 2, 1, 1, 1}}) {
    const auto workload = bank(c.accounts_per_thread, c.nodes, c.threads, c.hot_fraction, c.hot_probability);
    const std::uint64_t accounts = c.accounts_per_thread * static_cast<std::uint64_t>(c.nodes * c.threads);
    std::set<std::uint64_t> seen;
    pcg32 random(3);
    for (int i = 0; i < 20'000; ++i) {
      const Request request = workload->draw(random, {});
      ASSERT_LT(request.arguments[0], accounts);
      ASSERT_LT(request.arguments[1], accounts);
      ASSERT_NE(request.arguments[0], request.arguments[1]);
      seen.insert(request.arguments[0]);
    }
    const bool uniform = c.hot_fraction == 1;
    EXPECT_TRUE(!uniform || seen.size() == accounts);
  }
}

TEST(SmallBank, ASeedDrawsTheSameRequestsAgain) {
  const auto workload = bank(10'000);
  pcg32 one(7), same(7), other(8);
  int equal = 0;
  for (int i = 0; i < 1000; ++i) {
    const Request request = workload->draw(one, {}), again = workload->draw(same, {}),
                  different = workload->draw(other, {});
    ASSERT_EQ(request.type, again.type);
    ASSERT_EQ(request.arguments, again.arguments);
    equal += request.arguments == different.arguments;
  }
  EXPECT_LT(equal, 10);
}

TEST(SmallBank, TablesHoldEveryAccount) {
  const auto workload = bank(1'000, 4, 2);
  const std::vector<TableSpec> tables = workload->tables();
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0].name, "savings");
  EXPECT_EQ(tables[1].name, "checking");
  for (const TableSpec& table : tables) {
    EXPECT_EQ(table.value_b, 8U);
    EXPECT_EQ(table.records, 2'000U) << "of a node";
  }
  std::uint64_t classified = 0;
  for (const RecordClass& one : workload->classes()) classified += one.records;
  EXPECT_EQ(classified, 16'000U);
}

TEST(SmallBank, PopularRecordsAreThoseOfHotAccounts) {
  const auto workload = bank(1'000, 4, 2);
  const std::vector<bool> popular = popular_classes(workload->classes());
  std::uint64_t found = 0;
  for_each_record(*workload, 4, [&](RecordId record) { found += popular[workload->class_of(record)]; });
  EXPECT_EQ(found, 2U * 320);
}

TEST(SmallBank, InitialBalancesAreKnownPlausibleAndNotAllTheSame) {
  const auto workload = bank(1'000, 4, 2);
  std::set<std::int64_t> balances;
  const auto balance = [&](RecordId record) {
    std::int64_t cents = 0;
    workload->initial_value(record, std::as_writable_bytes(std::span(&cents, 1)));
    return cents;
  };
  double sum = 0;
  for_each_record(*workload, 4, [&](RecordId record) {
    const std::int64_t cents = balance(record);
    ASSERT_GE(cents, 1'000'000);
    ASSERT_LT(cents, 5'000'000);
    ASSERT_EQ(cents, balance(record));
    balances.insert(cents);
    sum += static_cast<double>(cents);
  });
  EXPECT_GT(balances.size(), 15'000U);
  EXPECT_NEAR(sum / 16'000, 3'000'000, 60'000);
}

}  // namespace
}  // namespace verbtwin::protocols
