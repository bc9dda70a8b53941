// What the workloads promise of their data and draws, without running a transaction.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "protocols/workloads/draws.hpp"
#include "protocols/workloads/mix.hpp"
#include "protocols/workloads/object_store.hpp"
#include "protocols/workloads/popularity_for_test.hpp"
#include "protocols/workloads/smallbank.hpp"
#include "protocols/workloads/tatp.hpp"
#include "protocols/workloads/tpcc.hpp"
#include "protocols/workloads/tpce.hpp"
#include "protocols/workloads/ycsb.hpp"

namespace verbtwin::protocols {
namespace {

using nlohmann::json;

TEST(Draws, ZipfFollowsItsWeights) {
  constexpr int kDraws = 400'000;
  for (const std::uint64_t count : {100ULL, 1'000'000ULL}) {
    const Zipf zipf(count, 0.99);
    pcg32 random(1);
    std::map<std::uint64_t, int> drawn;
    for (int i = 0; i < kDraws; ++i) {
      const std::uint64_t rank = zipf.draw(random);
      ASSERT_LT(rank, count);
      ++drawn[rank];
    }
    double zeta = 0;
    for (std::uint64_t i = 1; i <= count; ++i) zeta += std::pow(static_cast<double>(i), -0.99);
    EXPECT_NEAR(drawn[0] * zeta / kDraws, 1, 0.02) << count;
    EXPECT_NEAR(drawn[1] * zeta * std::pow(2, 0.99) / kDraws, 1, 0.03) << count;
  }
}

TEST(Draws, ZipfWithoutSkewIsUniform) {
  const Zipf zipf(10, 0);
  pcg32 random(1);
  std::array<int, 10> drawn{};
  for (int i = 0; i < 100'000; ++i) ++drawn[zipf.draw(random)];
  for (const int n : drawn) EXPECT_NEAR(n, 10'000, 400);
}

TEST(Draws, APermutationGivesEachNumberAPlaceOfItsOwn) {
  for (const std::uint64_t count : {1ULL, 2ULL, 3ULL, 7ULL, 64ULL, 1000ULL, 65'537ULL}) {
    const Permutation permutation(count);
    std::set<std::uint64_t> places;
    for (std::uint64_t number = 0; number < count; ++number) {
      const std::uint64_t place = permutation.place_of(number);
      ASSERT_LT(place, count);
      ASSERT_EQ(permutation.number_at(place), number);
      places.insert(place);
    }
    EXPECT_EQ(places.size(), count);
  }
}

class TatpTest : public testing::Test {
 protected:
  std::unique_ptr<Workload> tatp = make_tatp({{"subscribers_per_node", 20'000}}, 3, 2);
  double share(std::uint32_t table, std::uint64_t rows) const {
    std::vector<std::byte> value(tatp->tables()[table].value_b);
    int exist = 0;
    for (std::uint64_t key = 0; key < rows; ++key)
      exist += tatp->initial_value(RecordId::make(table, 1, key), value);
    return static_cast<double>(exist) / static_cast<double>(rows);
  }
};

TEST_F(TatpTest, RowsExistAsOftenAsTheBenchmarkSays) {
  EXPECT_NEAR(share(1, 80'000), 0.625, 0.01) << "access information";
  EXPECT_NEAR(share(2, 80'000), 0.625, 0.01) << "special facilities";
  EXPECT_NEAR(share(3, 240'000), 0.3125, 0.01) << "call forwardings";
}

TEST_F(TatpTest, EveryNumberLeadsToItsSubscriber) {
  std::set<std::uint64_t> seen;
  for (std::uint32_t node = 0; node < 3; ++node) {
    for (std::uint64_t key = 0; key < 20'000; ++key) {
      std::uint64_t s = 0;
      tatp->initial_value(RecordId::make(4, node, key), std::as_writable_bytes(std::span(&s, 1)));
      ASSERT_LT(s, 60'000U);
      seen.insert(s);
    }
  }
  EXPECT_EQ(seen.size(), 60'000U);
}

/// Draws favour ones in a subscriber's low bits, which are not to be a few partitions'.
TEST(Tatp, EveryPartitionGetsItsShareOfDraws) {
  constexpr int kDraws = 200'000;
  for (const std::uint32_t nodes : {2U, 4U, 7U, 8U}) {
    const auto tatp = make_tatp({{"subscribers_per_node", 100'000}}, static_cast<int>(nodes), 1);
    const std::vector<std::uint32_t> partitions = [&] {  // of each subscriber, as its index says
      std::vector<std::uint32_t> all(nodes * 100'000);
      for (std::uint32_t node = 0; node < nodes; ++node) {
        for (std::uint64_t key = 0; key < 100'000; ++key) {
          std::uint64_t s = 0;
          tatp->initial_value(RecordId::make(4, node, key), std::as_writable_bytes(std::span(&s, 1)));
          all[s] = static_cast<std::uint32_t>((node + nodes - key % nodes) % nodes);
        }
      }
      return all;
    }();
    pcg32 random(1);
    std::vector<int> drawn(nodes);
    for (int i = 0; i < kDraws; ++i) ++drawn[partitions[tatp->draw(random, {}).arguments[0]]];
    for (const int n : drawn) EXPECT_NEAR(n * static_cast<double>(nodes) / kDraws, 1, 0.05) << nodes;
  }
}

TEST(Tatp, RowsAreAsPopularAsTheirSubscribers) {
  for (const int per_node : {1000, 70'000}) {  // wrapping the draws around, and not
    SCOPED_TRACE(per_node);
    const auto tatp = make_tatp({{"subscribers_per_node", per_node}}, 3, 1);
    expect_classes_counted(*tatp, 3);
  }
  const auto tatp = make_tatp({{"subscribers_per_node", 70'000}}, 3, 1);
  const std::vector<bool> popular = popular_classes(tatp->classes());
  std::uint64_t records = 0;
  for (std::size_t i = 0; i < popular.size(); ++i) records += popular[i] ? tatp->classes()[i].records : 0;
  EXPECT_GT(records, 0U);
  EXPECT_LT(static_cast<double>(records), 0.08 * 22 * 3 * 70'000);
}

TEST(Ycsb, KeysAreAsPopularAsTheirRanks) {
  const auto key_of = [](const Request& request) {
    const std::uint64_t key = request.arguments[0];
    if (request.type == 2) return std::vector<RecordId>{};  // a new one
    return std::vector{RecordId::make(0, static_cast<std::uint32_t>(key % 4), key / 4)};
  };
  for (const char* mix : {"B", "C", "D", "F"}) {
    SCOPED_TRACE(mix);
    const auto ycsb =
        make_ycsb({{"mix", mix}, {"theta", 0.99}, {"records_per_node", 50'000}, {"value_b", 8}}, 4, 2);
    expect_classes_counted(*ycsb, 4);
    expect_classes_as_drawn(*ycsb, 100'000, key_of);
    const std::vector<bool> popular = popular_classes(ycsb->classes());
    double records = 0, draws = 0;
    for (std::size_t i = 0; i < popular.size(); ++i) {
      const RecordClass& one = ycsb->classes()[i];
      records += popular[i] ? static_cast<double>(one.records) : 0;
      draws += popular[i] ? static_cast<double>(one.records) * one.drawn : 0;
    }
    EXPECT_NEAR(records, 8'067, 600) << "ranks drawn more than twice as often as the average";
    EXPECT_NEAR(draws, 0.737, 0.01);
  }
  const auto uniform =
      make_ycsb({{"mix", "C"}, {"theta", 0}, {"records_per_node", 50'000}, {"value_b", 8}}, 4, 2);
  const std::vector<bool> popular = popular_classes(uniform->classes());
  EXPECT_EQ(std::ranges::count(popular, true), 0);
}

TEST(ObjectStore, ObjectsAreAsPopularAsTheirRanks) {
  const auto store = make_object_store(
      {{"reads", 2}, {"updates", 1}, {"objects_per_thread", 5000}, {"value_b", 8}, {"theta", 0.9}}, 4, 2);
  expect_classes_counted(*store, 4);
  const std::vector<bool> popular = popular_classes(store->classes());
  EXPECT_GT(std::ranges::count(popular, true), 0);
}

/// What a scenario asks for is what is drawn, and what rows are popular for.
TEST(Mix, IsTheScenariosWhereItSaysOne) {
  const auto draws = [](const Workload& workload) {
    std::map<std::string_view, double> shares;
    pcg32 random(1);
    for (int i = 0; i < 10'000; ++i)
      shares[workload.transaction_names()[workload.draw(random, {}).type]] += 1e-4;
    return shares;
  };
  const json bank = {{"accounts_per_thread", 100}, {"hot_fraction", 0.04}, {"hot_probability", 0.9}};
  json own = bank;
  own["mix_percent"] = {{"balance", 80}, {"send_payment", 20}};
  EXPECT_NEAR(draws(*make_smallbank(bank, 2, 2))["send_payment"], 0.25, 0.02);
  const auto smallbank = draws(*make_smallbank(own, 2, 2));
  EXPECT_EQ(smallbank.size(), 2U);
  EXPECT_NEAR(smallbank.at("balance"), 0.8, 0.02);
  own = {{"mix", "E"}, {"theta", 0.9}, {"records_per_node", 100}, {"value_b", 8}};
  own["mix_percent"] = {{"read", 70}, {"update", 30}};
  const auto ycsb = make_ycsb(own, 2, 1);
  EXPECT_NEAR(draws(*ycsb)["update"], 0.3, 0.02);
  EXPECT_EQ(ycsb->tables().size(), 1U) << "nothing scans";
  own = {{"mix", "new_order"}, {"warehouses_per_node", 2}, {"items", 1000}, {"remote_share", 0.5}};
  own["mix_percent"] = {{"new_order", 10}, {"stock_level", 90}};
  EXPECT_NEAR(draws(*make_tpcc(own, 2, 1))["stock_level"], 0.9, 0.02);
}

TEST(Mix, RowsOfTatpAreLookedAtByIt) {
  const auto popularity = [](const json& mix) {
    const auto tatp = make_tatp({{"subscribers_per_node", 100}, {"mix_percent", mix}}, 2, 1);
    std::map<std::uint32_t, double> of_table;
    for (const RecordClass& rows : tatp->classes())
      of_table[rows.table] += rows.drawn * static_cast<double>(rows.records);
    return of_table;
  };
  const auto reads = popularity({{"get_access_data", 100}}), own = popularity(json::object());
  EXPECT_EQ(reads.at(0), 0);
  EXPECT_GT(reads.at(1), 0);
  EXPECT_NEAR(own.at(0) / own.at(1), 51.0 / 35, 0.01);
}

TEST(Mix, SharesAreAHundredTogether) {
  const std::array<std::string_view, 2> names = {"read", "update"};
  EXPECT_EQ(mix_percent_of<2>(json::object(), names, {5, 95}), (MixPercent<2>{5, 95}));
  EXPECT_EQ(mix_percent_of<2>({{"mix_percent", {{"update", 100}}}}, names, {5, 95}), (MixPercent<2>{0, 100}));
  try {
    mix_percent_of<2>({{"mix_percent", {{"read", 80}, {"update", 10}}}}, names, {5, 95});
    ADD_FAILURE() << "not refused";
  } catch (const UserError& error) {
    EXPECT_EQ(error.pointer(), "/workload/mix_percent");
    EXPECT_STREQ(error.what(), "the shares are 90 % together; allowed: 100 % together");
  }
}

/// Mix E enters what it inserts between keys that are there: scans meet it.
TEST(Ycsb, TheIndexHasRoomBetweenTheKeysThatAreLoaded) {
  const auto ycsb = make_ycsb({{"mix", "E"}, {"theta", 0.9}, {"records_per_node", 50}, {"value_b", 8}}, 2, 1);
  std::uint64_t word = 0;
  const auto leaf = [&](std::uint32_t partition, std::uint64_t number) {
    ycsb->initial_value(RecordId::make(1, partition, number), std::as_writable_bytes(std::span(&word, 1)));
    return word;
  };
  EXPECT_EQ(leaf(0, 0), 0x5555'5555'5555'5555U);
  EXPECT_EQ(leaf(1, 1), 0x55U) << "200 places for 100 keys: eight are in the fourth leaf";
  EXPECT_EQ(leaf(0, 2), 0U);
  expect_classes_counted(*ycsb, 2);
}

TEST(Ycsb, InsertsAreEachWorkersOwn) {
  constexpr int kNodes = 3, kThreads = 2;
  const auto ycsb = make_ycsb({{"mix", "D"}, {"theta", 0.99}, {"records_per_node", 1000}, {"value_b", 8}},
                              kNodes, kThreads);
  pcg32 random(1);
  std::set<std::uint64_t> inserted;
  std::map<std::uint64_t, int> of_node;
  for (int worker = 0; worker < kNodes * kThreads; ++worker) {
    for (int inserts = 0; inserts < 500;) {  // all of its stripe
      const Request request = ycsb->draw(random, {worker / kThreads, worker % kThreads});
      if (request.type != 2) continue;
      ASSERT_TRUE(inserted.insert(request.arguments[0]).second);
      ++of_node[request.arguments[0] % kNodes];
      ++inserts;
    }
  }
  EXPECT_EQ(*inserted.begin(), 3000U);
  EXPECT_EQ(*inserted.rbegin(), 5999U);
  for (const auto& [node, count] : of_node) EXPECT_EQ(count, 1000) << node;
}

TEST(Workloads, ASeedDrawsTheSameRequestsAgainWithinTheirBounds) {
  // Made twice: what YCSB inserts next is for its workload to remember.
  const auto make_all = [] {
    std::vector<std::unique_ptr<Workload>> all;
    all.push_back(make_object_store(
        {{"reads", 4}, {"updates", 2}, {"objects_per_thread", 100}, {"value_b", 40}}, 3, 2));
    all.push_back(make_tpcc(
        {{"mix", "full"}, {"warehouses_per_node", 3}, {"items", 1000}, {"remote_share", 0.5}}, 3, 2));
    all.push_back(make_tatp({{"subscribers_per_node", 100}}, 3, 2));
    all.push_back(make_tpce({{"customers_per_node", 100}}, 3, 2));
    all.push_back(
        make_ycsb({{"mix", "D"}, {"theta", 0.99}, {"records_per_node", 100}, {"value_b", 100}}, 3, 2));
    return all;
  };
  const auto all = make_all(), all_again = make_all();
  for (std::size_t w = 0; w < all.size(); ++w) {
    const Workload* const workload = all[w].get();
    pcg32 one(7), same(7);
    for (int i = 0; i < 1000; ++i) {
      const Request request = workload->draw(one, {1, 1}), again = all_again[w]->draw(same, {1, 1});
      ASSERT_LT(request.type, workload->transaction_names().size());
      ASSERT_EQ(request.type, again.type);
      ASSERT_EQ(request.arguments, again.arguments);
    }
    for (const RecordClass& its_class : workload->classes())
      EXPECT_LT(its_class.table, workload->tables().size());
    EXPECT_LE(workload->writes_max(), workload->records_max());
  }
}

}  // namespace
}  // namespace verbtwin::protocols
