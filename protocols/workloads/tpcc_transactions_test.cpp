// What TPC-C's transactions do to the rows, each by itself (TPC Benchmark C, revision 5.11, clauses 2.4
// to 2.8).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "protocols/workloads/tpcc.hpp"
#include "protocols/workloads/workload_run_for_test.hpp"

namespace verbtwin::protocols {
namespace {

using namespace tpcc;

/// Two warehouses of one node, whose districts keep as many orders as there are at first: the next one takes
/// the place of the first.
class TpccTransactions : public testing::Test {
 protected:
  static constexpr std::uint32_t kHome = 1, kItems = 100, kOrders = kInitialOrders;

  struct Rows final : InitialValues, Popularity {
    bool initial_value(RecordId record, std::span<std::byte> value) const override {
      return data.initial_value(record, value);
    }
    const std::vector<RecordClass>& classes() const override { return none; }
    std::size_t class_of(RecordId) const override { return kNoClass; }
    Data data{1, 2, kItems, kOrders};
    std::vector<RecordClass> none;
  };

  void SetUp() override { start_again(); }
  void start_again() { run.emplace(rows, data.tables(true), kDistricts * (4 + kLinesMax)); }

  Terminal terminal(std::uint64_t seed, std::uint32_t remote_per_million = 0) const {
    return {data, Request{0, {kHome, seed, 1}}, remote_per_million};
  }
  Outcome new_order(std::uint64_t seed, std::uint32_t remote_per_million = 0) {
    return run->run([&](Transaction& tx) {
      return run_new_order(data, tx, terminal(seed, remote_per_million), /*delivered=*/true);
    });
  }
  Outcome payment(std::uint64_t seed) {
    return run->run([&](Transaction& tx) { return run_payment(data, tx, terminal(seed)); });
  }

  /// What a new-order asks for.
  struct Entered {
    std::uint32_t district = kDistricts;
    Order order{};
    std::vector<OrderLine> lines;
  };
  /// The first that was entered behind those there are at first.
  Entered entered() {
    Entered found;
    while (found.district-- > 0) {
      if (run->row<District>(data.district(kHome, found.district)).next_order > kOrders) break;
    }
    found.order = run->row<Order>(data.order(kHome, found.district, kOrders));
    for (std::uint32_t line = 0; line < found.order.lines; ++line)
      found.lines.push_back(run->row<OrderLine>(data.order_line(kHome, found.district, kOrders, line)));
    return found;
  }
  /// The same that will be entered by new_order(seed).
  Entered preview(std::uint64_t seed, std::uint32_t remote_per_million = 0) {
    EXPECT_EQ(new_order(seed, remote_per_million), Outcome::kCommitted);
    const Entered found = entered();
    start_again();
    return found;
  }

  const Rows rows{};
  const Data& data = rows.data;
  std::optional<WorkloadRun> run;
};

/// Clause 2.4.2.2: of a stock that exceeds what is ordered by ten or more just that goes; else 91 come.
TEST_F(TpccTransactions, StockIsRefilledWhereFewerThanTenWouldBeLeft) {
  const Entered order = preview(1);
  ASSERT_GE(order.lines.size(), kLinesMin);
  for (const int left : {9, 10, 11}) {
    start_again();
    for (const OrderLine& line : order.lines) {
      const auto quantity = static_cast<std::int32_t>(line.quantity) + left;
      run->set(data.stock(kHome, line.item), Stock{quantity, 7, 3, 2});
    }
    ASSERT_EQ(new_order(1), Outcome::kCommitted);
    for (const OrderLine& line : order.lines) {
      const auto stock = run->row<Stock>(data.stock(kHome, line.item));
      EXPECT_EQ(stock.quantity, left >= 10 ? left : left + 91);
      EXPECT_EQ(stock.ytd, 7 + line.quantity);
      EXPECT_EQ(stock.orders, 4U);
      EXPECT_EQ(stock.remote_orders, 2U) << "from the home";
    }
  }
}

TEST_F(TpccTransactions, RemoteOrdersAreThoseThatAnotherWarehouseSupplies) {
  constexpr std::uint32_t kHalf = 500'000;
  ASSERT_EQ(new_order(1, kHalf), Outcome::kCommitted);
  const Entered order = entered();
  std::size_t remote = 0;
  for (const OrderLine& line : order.lines) {
    const bool is_remote = line.supply_warehouse != kHome;
    EXPECT_EQ(run->row<Stock>(data.stock(line.supply_warehouse, line.item)).remote_orders,
              is_remote ? 1U : 0U);
    remote += is_remote;
  }
  EXPECT_GT(remote, 0U);
  EXPECT_LT(remote, order.lines.size());
  EXPECT_EQ(order.order.all_local, 0);
}

/// Where deliveries fall so far behind that an order takes the place of one that has not been delivered, the
/// next delivery goes to the one behind it, which is there.
TEST_F(TpccTransactions, AnOrderThatIsOvertakenIsNoLongerTheNextToDeliver) {
  const std::uint32_t d = preview(1).district;
  for (const std::uint64_t old : {kInitialDelivered - 1, kInitialDelivered}) {
    start_again();
    const bool waits = old >= kInitialDelivered;
    auto district = run->row<District>(data.district(kHome, d));
    district.next_order = kOrders + static_cast<std::uint32_t>(old);
    run->set(data.district(kHome, d), district);
    ASSERT_EQ(run->exists(data.new_order(kHome, d, old)), waits);
    ASSERT_EQ(new_order(1), Outcome::kCommitted);
    EXPECT_EQ(run->row<DeliveryCursor>(data.delivery_cursor(kHome, d)).next,
              waits ? old + 1 : kInitialDelivered);
    const auto placed = run->row<Order>(data.order(kHome, d, kOrders + old));
    EXPECT_EQ(placed.entered, kOrders + old);
    for (std::uint32_t line = 0; line < kLinesMax; ++line)
      EXPECT_EQ(run->exists(data.order_line(kHome, d, kOrders + old, line)), line < placed.lines) << line;
  }
}

/// Clause 2.5.1.2: a remote customer is one of any district of another warehouse, the home's of that district
/// which takes the payment.
TEST_F(TpccTransactions, APaymentIsTakenFromItsCustomer) {
  int remote = 0, of_another_district = 0;
  std::map<std::uint32_t, std::uint32_t> taken;  // by district
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::map<std::uint64_t, Customer> before;
    ASSERT_EQ(payment(seed), Outcome::kCommitted);
    std::uint32_t d = 0;
    while (run->row<District>(data.district(kHome, d)).next_history == taken[d]) ++d;
    const auto paid = run->row<tpcc::History>(data.history(kHome, d, taken[d]++));
    EXPECT_TRUE(paid.customer_warehouse != kHome || paid.customer_district == d);
    remote += paid.customer_warehouse != kHome;
    of_another_district += paid.customer_district != d;
    const RecordId payer = data.customer(paid.customer_warehouse, paid.customer_district, paid.customer);
    const auto customer = run->row<Customer>(payer);
    Customer at_first{};
    data.initial_value(payer, std::as_writable_bytes(std::span(&at_first, 1)));
    if (customer.payments != at_first.payments + 1) continue;  // not its first of these
    EXPECT_EQ(customer.balance_cents, at_first.balance_cents - paid.amount_cents);
    EXPECT_EQ(customer.ytd_payment_cents, at_first.ytd_payment_cents + paid.amount_cents);
  }
  EXPECT_GT(remote, 2);
  EXPECT_LT(remote, 20);
  EXPECT_GT(of_another_district, remote / 2);
}

/// Lines of a newer order that has the place of a customer's last one are none of that customer's.
TEST_F(TpccTransactions, AnOrderStatusLooksAtLinesOfThatOrderOnly) {
  const auto reads = [&] {
    EXPECT_EQ(run->run([&](Transaction& tx) { return run_order_status(data, tx, terminal(3)); }),
              Outcome::kCommitted);
    const auto all = run->history()[run->history().size() - 1].reads;
    return std::vector(all.begin(), all.end());
  };
  const std::vector<Access> accesses = reads();
  const RecordId order = accesses.at(2).record;
  ASSERT_EQ(order.table(), kOrder);
  auto newer = run->row<Order>(order);
  ASSERT_EQ(accesses.size(), 3U + newer.lines) << "customer, its last order, the order and its lines";
  newer.entered += kOrders;
  run->set(order, newer);
  EXPECT_EQ(reads().size(), 3U);
}

/// Clause 2.8.2.2: the stock of each item of the last twenty orders, once.
TEST_F(TpccTransactions, AStockLevelLooksUpEachItemOfTheLastTwentyOrdersOnce) {
  run->cpu().prices() = {};
  run->cpu().prices().cost_ps[static_cast<std::size_t>(Cost::kIndexLookup)] = 1;
  const std::int64_t begin_ps = run->cpu().now_ps();
  ASSERT_EQ(run->run([&](Transaction& tx) { return run_stock_level(data, tx, terminal(3)); }),
            Outcome::kCommitted);
  const std::int64_t looked_up = run->cpu().now_ps() - begin_ps;
  constexpr std::int64_t kLookedAt = 20;
  std::set<std::int64_t> of_district;
  for (std::uint32_t d = 0; d < kDistricts; ++d) {
    std::set<std::uint32_t> items;
    for (std::uint64_t o = kOrders - kLookedAt; o < kOrders; ++o) {
      for (std::uint32_t line = 0; line < kLinesMax; ++line) {
        const RecordId id = data.order_line(kHome, d, o, line);
        if (run->exists(id)) items.insert(run->row<OrderLine>(id).item);
      }
    }
    of_district.insert(1 + kLookedAt * kLinesMax + static_cast<std::int64_t>(items.size()));
  }
  EXPECT_TRUE(of_district.contains(looked_up)) << looked_up;
}

}  // namespace
}  // namespace verbtwin::protocols
