// TPC-C: its data, its draws, and that its consistency conditions find what breaks them.
#include "protocols/workloads/tpcc.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "protocols/workloads/draws.hpp"
#include "protocols/workloads/popularity_for_test.hpp"

namespace verbtwin::protocols {
namespace {

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

/// What is looked up at other nodes: the stock of remote lines, and the customers of remote payments.
TEST(Tpcc, StockAndCustomersAreAsPopularAsTheyAreDrawn) {
  const tpcc::Data data(2, 3, 20'000);
  const auto full = make_tpcc(
      {{"mix", "full"}, {"warehouses_per_node", 3}, {"items", 20'000}, {"remote_share", 0.2}}, 2, 2);
  const auto new_order = make_tpcc(
      {{"mix", "new_order"}, {"warehouses_per_node", 3}, {"items", 20'000}, {"remote_share", 0.2}}, 2, 2);
  const auto stock_of = [&](const Request& request) {
    std::vector<RecordId> records;
    tpcc::Terminal terminal(data, request, 200'000);
    for (int line = 0; line < 10; ++line) {
      const std::uint32_t item = terminal.item();
      if (terminal.line_is_remote()) records.push_back(data.stock(terminal.other_warehouse(), item));
    }
    return records;
  };
  expect_classes_as_drawn(*new_order, 50'000, stock_of);
  constexpr std::uint32_t kNewOrder = 0, kPayment = 1;
  std::vector<std::byte> value(sizeof(tpcc::CustomerData));
  expect_classes_as_drawn(*full, 200'000, [&](const Request& request) {
    if (request.type == kNewOrder) return stock_of(request);
    std::vector<RecordId> records;
    tpcc::Terminal terminal(data, request, 200'000);
    if (request.type != kPayment || !terminal.payment_is_remote()) return records;
    const std::uint32_t w = terminal.other_warehouse(), d = terminal.district();
    const std::uint32_t c = terminal.is_by_name() ? terminal.customer_by_name() : terminal.customer();
    records.push_back(data.customer(w, d, c));
    tpcc::Customer customer{};
    data.initial_value(records.front(), std::as_writable_bytes(std::span(&customer, 1)));
    if (customer.bad_credit != 0) records.push_back(data.customer_data(w, d, c));
    return records;
  });
  std::uint64_t stock = 0, customers = 0;
  for (const RecordClass& one : full->classes()) {
    stock += one.table == tpcc::kStock ? one.records : 0;
    customers += one.table == tpcc::kCustomer ? one.records : 0;
  }
  EXPECT_EQ(stock, 6U * 20'000);
  EXPECT_EQ(customers, 6U * 30'000);
}

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
    set(small.last_order(0, 2, 7), tpcc::LastOrder{o});
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

/// Each condition notices what breaks it: a district with a payment, an order and a delivery, one thing
/// wrong.
TEST_F(TpccTest, WhatAMixLeavesUndoneIsFound) {
  const tpcc::Data one{1, 1, 1000};
  std::map<std::uint64_t, std::vector<std::byte>> rows;
  std::vector<Access> written;
  const auto edit = [&]<typename Row>(RecordId record, Row row, const auto& change) {
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&row, 1));
    if (const auto found = rows.find(record.packed); found != rows.end()) {
      std::ranges::copy(found->second, bytes.begin());
    } else {
      one.initial_value(record, bytes);
      written.push_back({record, 1, 0});
    }
    change(row);
    rows[record.packed] = std::vector(bytes.begin(), bytes.end());
  };
  const auto violations = [&] {
    History history;
    history.commit({}, written, 5);  // five were ordered
    const History* histories[] = {&history};
    return check_consistency(one, Histories(histories),
                             [&](RecordId record, std::span<std::byte> value) {
                               const auto found = rows.find(record.packed);
                               if (found == rows.end()) return one.initial_value(record, value);
                               std::ranges::copy(found->second, value.begin());
                               return true;
                             })
        .violations;
  };
  const RecordId district = one.district(0, 4), payer = one.customer(0, 4, 9);
  // A payment of 700 cents by customer 9.
  edit(one.warehouse(0), tpcc::Warehouse{}, [](auto& row) { row.ytd_cents += 700; });
  edit(district, tpcc::District{}, [](auto& row) { row.ytd_cents += 700, ++row.next_history; });
  edit(payer, tpcc::Customer{},
       [](auto& row) { row.balance_cents -= 700, row.ytd_payment_cents += 700, ++row.payments; });
  edit(one.history(0, 4, 0), tpcc::History{}, [](auto& row) { row = {700, 9, 4, 0, 0, {}}; });
  // An order of five of item 3 by customer 9.
  edit(district, tpcc::District{}, [](auto& row) { row.next_order = tpcc::kInitialOrders + 1; });
  constexpr std::uint64_t kOrder = tpcc::kInitialOrders;
  edit(one.order(0, 4, kOrder), tpcc::Order{}, [](auto& row) { row = {kOrder, 9, 1, 0, 1}; });
  edit(one.new_order(0, 4, kOrder), tpcc::NewOrder{}, [](auto& row) { row = {kOrder}; });
  edit(one.last_order(0, 4, 9), tpcc::LastOrder{}, [](auto& row) { row = {kOrder}; });
  edit(one.order_line(0, 4, kOrder, 0), tpcc::OrderLine{},
       [&](auto& row) { row = {3, 0, 5 * one.price_cents(3), 0, 5, {}, 0}; });
  edit(one.stock(0, 3), tpcc::Stock{}, [](auto& row) {
    row.quantity = row.quantity >= 15 ? row.quantity - 5 : row.quantity + 86;
    row.ytd += 5;
  });
  EXPECT_EQ(violations(), 0U);

  const auto expect_found = [&](RecordId record, auto row, const auto& change, const char* what) {
    const std::vector<std::byte> as_it_was = rows.at(record.packed);
    edit(record, row, change);
    EXPECT_EQ(violations(), 1U) << what;
    rows[record.packed] = as_it_was;
  };
  expect_found(
      payer, tpcc::Customer{}, [](auto& row) { --row.payments; }, "a payment was not counted");
  expect_found(
      payer, tpcc::Customer{}, [](auto& row) { row.ytd_payment_cents -= 9, row.balance_cents += 9; },
      "nor in full");
  expect_found(
      payer, tpcc::Customer{}, [](auto& row) { row.balance_cents += 50; }, "nothing was delivered");
  expect_found(
      one.history(0, 4, 0), tpcc::History{}, [](auto& row) { --row.amount_cents; }, "a history");
  expect_found(
      one.last_order(0, 4, 9), tpcc::LastOrder{}, [](auto& row) { --row.order; }, "last order");
  expect_found(
      one.order_line(0, 4, kOrder, 0), tpcc::OrderLine{}, [](auto& row) { row.amount_cents = 0; },
      "an order for nothing");
  expect_found(
      one.stock(0, 3), tpcc::Stock{}, [](auto& row) { row.quantity -= 1; }, "one more has gone");
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

}  // namespace
}  // namespace verbtwin::protocols
