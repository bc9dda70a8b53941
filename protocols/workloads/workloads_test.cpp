// What the workloads promise of their data and draws, without running a transaction.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "protocols/workloads/draws.hpp"
#include "protocols/workloads/object_store.hpp"
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

/// The share of all records that is popular, and that of the draws of each, as `drawn_record` says, that are.
struct PopularShares {
  double records, draws;
};
template <typename DrawnRecord>
PopularShares popular_shares(const Workload& workload, int draws, const DrawnRecord& drawn_record) {
  pcg32 random(1);
  int popular = 0;
  for (int i = 0; i < draws; ++i)
    popular += workload.popular(drawn_record(workload.draw(random, {}))) ? 1 : 0;
  return {static_cast<double>(workload.popular_records()) / static_cast<double>(workload.records()),
          static_cast<double>(popular) / draws};
}

/// Every record's initial value, as a run would read it that nobody has written.
FinalValue untouched(const Workload& workload) {
  return [&workload](RecordId record, std::span<std::byte> value) {
    return workload.initial_value(record, value);
  };
}

class TpccTest : public testing::Test {
 protected:
  static std::unique_ptr<Workload> workload(const char* mix, double remote_share = 0.01) {
    return make_tpcc(
        {{"mix", mix}, {"warehouses_per_node", 3}, {"items", 1000}, {"remote_share", remote_share}}, 2, 2);
  }
  const tpcc::Data data{2, 3, 1000};
};

TEST_F(TpccTest, InitialDataIsConsistent) {
  const auto full = workload("full");
  History history;  // as if every district and warehouse had been written
  std::vector<Access> all;
  for (std::uint32_t w = 0; w < 6; ++w) {
    all.push_back({data.warehouse(w), 1, 0});
    for (std::uint32_t d = 0; d < tpcc::kDistricts; ++d) all.push_back({data.district(w, d), 1, 0});
  }
  history.commit({}, all, 0);
  const History* histories[] = {&history};
  const CheckReport report = full->check_invariant(Histories(histories), untouched(*full));
  EXPECT_EQ(report.violations, 0U) << (report.examples.empty() ? "" : report.examples.front());
}

TEST_F(TpccTest, ChecksFindWhatIsInconsistent) {
  const auto full = workload("full");
  History history;
  const Access written[] = {{data.district(1, 2), 1, 0},
                            {data.warehouse(1), 1, 0},
                            {data.stock(1, 5), 1, 0},
                            {data.order_line(1, 2, 2500, 3), 1, 0}};
  history.commit({}, written, 0);
  const History* histories[] = {&history};
  const auto with = [&](RecordId changed, auto&& change) {
    return full->check_invariant(Histories(histories), [&](RecordId record, std::span<std::byte> value) {
      const bool exists = full->initial_value(record, value);
      return record == changed ? change(value) : exists;
    });
  };
  const auto row = [](std::span<std::byte> value, auto type) {
    return reinterpret_cast<decltype(type)*>(value.data());
  };
  EXPECT_GT(with(data.order(1, 2, 2500), [](auto) { return false; }).violations, 0U) << "an order lost";
  EXPECT_GT(with(data.new_order(1, 2, 2500), [](auto) { return false; }).violations, 0U);
  EXPECT_GT(with(data.order_line(1, 2, 2500, 0), [](auto) { return false; }).violations, 0U);
  EXPECT_EQ(with(data.order(1, 2, 2501), [](auto) { return false; }).violations, 0U) << "nobody wrote it";
  EXPECT_GT(with(data.order(1, 2, 3000), [](auto) { return true; }).violations, 0U) << "an order too many";
  EXPECT_GT(
      with(data.stock(1, 5), [&](auto value) { return row(value, tpcc::Stock{})->ytd = 3, true; }).violations,
      0U);
  EXPECT_GT(with(data.warehouse(1), [&](auto v) { return row(v, tpcc::Warehouse{})->ytd_cents += 1, true; })
                .violations,
            0U);
}

/// Of a district that keeps 3,010 orders and has had 3,015: the last five have the places of the first.
TEST_F(TpccTest, OrdersWhosePlacesAreUsedAgainAreConsistent) {
  const tpcc::Data small{1, 1, 1000, 3010};
  std::map<std::uint64_t, std::optional<std::vector<std::byte>>> rows;
  const auto set = [&](RecordId record, const auto& row) {
    const auto bytes = std::as_bytes(std::span(&row, 1));
    rows[record.packed] = std::vector(bytes.begin(), bytes.end());
  };
  History history;
  const Access written[] = {{small.district(0, 2), 1, 0}};
  history.commit({}, written, 0);
  const History* histories[] = {&history};
  const auto violations = [&] {
    return check_consistency(small, Histories(histories),
                             [&](RecordId record, std::span<std::byte> value) {
                               const auto found = rows.find(record.packed);
                               if (found == rows.end()) return small.initial_value(record, value);
                               if (found->second) std::ranges::copy(*found->second, value.begin());
                               return found->second.has_value();
                             })
        .violations;
  };
  tpcc::District district{};
  small.initial_value(small.district(0, 2), std::as_writable_bytes(std::span(&district, 1)));
  district.next_order = 3015;
  set(small.district(0, 2), district);
  for (std::uint64_t o = 3000; o < 3015; ++o) {
    set(small.order(0, 2, o), tpcc::Order{o, 7, 5, 0, 1});
    set(small.new_order(0, 2, o), tpcc::NewOrder{o});
    for (std::uint32_t line = 0; line < tpcc::kLinesMax; ++line) {
      set(small.order_line(0, 2, o, line), tpcc::OrderLine{});
      if (line >= 5) rows[small.order_line(0, 2, o, line).packed] = std::nullopt;
    }
  }
  EXPECT_EQ(violations(), 0U);
  set(small.order_line(0, 2, 3012, 7), tpcc::OrderLine{});
  EXPECT_EQ(violations(), 1U) << "a line of the older order";
  rows[small.order_line(0, 2, 3012, 7).packed] = std::nullopt;
  set(small.order(0, 2, 3015), tpcc::Order{3015, 7, 5, 0, 1});
  EXPECT_GT(violations(), 0U) << "an order too many";
  rows.erase(small.order(0, 2, 3015).packed);
  rows.erase(small.order(0, 2, 3012).packed);
  EXPECT_GT(violations(), 0U) << "the older one still has the place";
}

/// Of n with the name the one at n / 2, rounded up; constants of NURand as clause 2.1.6.1 has them.
TEST_F(TpccTest, ByNameTheCustomerInTheMiddleIsTaken) {
  std::set<std::uint32_t> middle;
  for (std::uint32_t name = 0; name < tpcc::Data::kNames; ++name) {
    const auto called = data.customers_called(name);
    middle.insert(called[(called.size() + 1) / 2 - 1]);
  }
  tpcc::Terminal terminal(data, Request{0, {2, 5, 6}}, 0);
  std::set<std::uint32_t> taken;
  for (int i = 0; i < 200'000; ++i) {
    taken.insert(terminal.customer_by_name());
    ASSERT_TRUE(middle.contains(*taken.rbegin()));
  }
  EXPECT_EQ(taken.size(), tpcc::Data::kNames);
  const std::uint32_t constant = tpcc::Terminal::kNameShift;
  EXPECT_TRUE(constant >= 65 && constant <= 119 && constant != 96 && constant != 112);
}

TEST_F(TpccTest, ACustomersLastOrderIsItsOwn) {
  const auto full = workload("full");
  std::set<std::uint64_t> orders;
  for (std::uint32_t c = 0; c < tpcc::kCustomers; ++c) {
    tpcc::LastOrder last{};
    tpcc::Order order{};
    full->initial_value(data.last_order(4, 7, c), std::as_writable_bytes(std::span(&last, 1)));
    ASSERT_TRUE(
        full->initial_value(data.order(4, 7, last.order), std::as_writable_bytes(std::span(&order, 1))));
    ASSERT_EQ(order.customer, c);
    orders.insert(last.order);
  }
  EXPECT_EQ(orders.size(), tpcc::kCustomers);
}

TEST_F(TpccTest, WorkersKeepToTheirHomes) {
  const auto no = workload("new_order");
  pcg32 random(1);
  std::map<int, std::set<std::uint64_t>> homes;
  for (int i = 0; i < 1000; ++i) {
    for (int thread = 0; thread < 2; ++thread)
      homes[thread].insert(no->draw(random, {1, thread}).arguments[0]);
  }
  EXPECT_EQ(homes[0], (std::set<std::uint64_t>{3, 5}));
  EXPECT_EQ(homes[1], (std::set<std::uint64_t>{4}));
}

TEST_F(TpccTest, RemoteLinesAreAsManyAsAskedFor) {
  for (const double share : {0.0, 0.3, 1.0}) {
    tpcc::Terminal terminal(data, Request{0, {2, 5, 6}}, per_million(share));
    int remote = 0;
    for (int i = 0; i < 10'000; ++i) {
      remote += terminal.line_is_remote();
      ASSERT_NE(terminal.other_warehouse(), 2U);
      ASSERT_LT(terminal.other_warehouse(), 6U);
    }
    EXPECT_NEAR(remote, share * 10'000, 150);
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

TEST(Tatp, PopularRowsAreThoseOfPopularSubscribers) {
  const auto tatp = make_tatp({{"subscribers_per_node", 500'000}}, 3, 1);
  std::uint64_t popular = 0;
  const std::vector<TableSpec> tables = tatp->tables();
  for (std::uint32_t table = 0; table < tables.size(); ++table) {
    for (std::uint64_t key = 0; key < tables[table].records; ++key)
      popular += tatp->popular(RecordId::make(table, 1, key)) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(3 * popular) / static_cast<double>(tatp->popular_records()), 1, 0.01);
  EXPECT_LT(static_cast<double>(popular), 0.06 * 22 * 500'000);
}

TEST(Ycsb, TheHotKeysArePopular) {
  for (const char* mix : {"B", "C", "F"}) {
    const auto ycsb =
        make_ycsb({{"mix", mix}, {"theta", 0.99}, {"records_per_node", 50'000}, {"value_b", 8}}, 4, 2);
    EXPECT_EQ(ycsb->records(), 200'000U) << mix;
    const PopularShares shares = popular_shares(*ycsb, 100'000, [](const Request& request) {
      const std::uint64_t key = request.arguments[0];
      return RecordId::make(0, static_cast<std::uint32_t>(key % 4), key / 4);
    });
    EXPECT_LT(shares.records, 0.05) << mix;
    EXPECT_NEAR(shares.draws, 0.737, 0.01) << mix;  // that of 8,067 of 200,000 ranks
  }
  const auto uniform =
      make_ycsb({{"mix", "C"}, {"theta", 0}, {"records_per_node", 50'000}, {"value_b", 8}}, 4, 2);
  EXPECT_EQ(uniform->popular_records(), 0U);
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
    EXPECT_LE(workload->popular_records(), workload->records());
    EXPECT_LE(workload->writes_max(), workload->records_max());
  }
}

}  // namespace
}  // namespace verbtwin::protocols
