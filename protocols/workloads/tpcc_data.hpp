// TPC-C's data (TPC Benchmark C, revision 5.11, clauses 1.3 and 4.3.3): rows, keys and initial contents.
//
// Values, shared read-only by all workers. Money in cents, rates in basis points (1/10,000).
//
// Rows hold the columns that transactions change or compare; columns that never change and that nobody
// compares (names, addresses, district strings) are functions of the key. So a stock row is 16 B on the wire,
// as in the system whose requests Wei et al. price (OSDI 2018, table 3: 68 B each, messages included), and a
// new-order writes 1.4 KB into a log (published: 1,006 B).
//
// Orders are numbered from 0 in each district; a district keeps the last kOrdersMax: a new-order takes the
// place of the one that was so many before it, and removes what is left of that. Every row lives at the node
// of its warehouse. What customers with bad credit paid is noted in a row of their own (clause 2.5.2.2), of
// the full mix.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocols/checks/history.hpp"
#include "protocols/store/layout.hpp"

namespace verbtwin::protocols::tpcc {

inline constexpr std::uint32_t kDistricts = 10;        // of a warehouse
inline constexpr std::uint32_t kCustomers = 3000;      // of a district
inline constexpr std::uint32_t kInitialOrders = 3000;  // of a district
inline constexpr std::uint32_t kInitialDelivered = 2100;
inline constexpr std::uint32_t kOrdersMax = 16384;
inline constexpr std::uint32_t kLinesMin = 5, kLinesMax = 15;
inline constexpr std::uint32_t kHistoryMax = 16384;  // of a district: older ones make room

enum Table : std::uint32_t {
  kWarehouse,
  kDistrict,
  kCustomer,
  kStock,
  kOrder,
  kNewOrder,
  kOrderLine,
  kHistory,
  kLastOrder,       // index: a customer's last order
  kDeliveryCursor,  // index: a district's oldest new-order
  kCustomerData,
  kTables
};

struct Warehouse {
  std::int64_t ytd_cents;
  std::uint32_t tax_bp, padding;
};
struct District {
  std::int64_t ytd_cents;
  std::uint32_t next_order, tax_bp, next_history, padding;
};
struct Customer {
  std::int64_t balance_cents, ytd_payment_cents;
  std::uint32_t payments, deliveries, discount_bp, bad_credit;
};
struct Stock {
  std::int32_t quantity;
  std::uint32_t ytd, orders, remote_orders;
};
struct Order {
  std::uint64_t entered;  // its number, which also is its time
  std::uint32_t customer;
  std::uint16_t lines;
  std::uint8_t carrier;  // 0: not delivered
  std::uint8_t all_local;
};
struct NewOrder {
  std::uint64_t order;
};
struct OrderLine {
  std::uint32_t item, supply_warehouse;
  std::int64_t amount_cents;
  std::uint64_t delivered;  // 0: not yet
  std::uint32_t quantity;
  std::array<char, 24> district_info;
  std::uint32_t padding;
};
struct History {
  std::int64_t amount_cents;
  std::uint32_t customer, customer_district, customer_warehouse, padding;
  std::array<char, 24> data;
};
struct LastOrder {
  std::uint64_t order;
};
struct DeliveryCursor {
  std::uint64_t next;  // the oldest order that has not been delivered
};

struct CustomerData {
  std::array<char, 500> text;
};

/// Where rows are and what they hold at first.
class Data {
 public:
  /// `orders_max`: of a district; tests have fewer.
  Data(std::uint32_t nodes, std::uint32_t warehouses_per_node, std::uint32_t items,
       std::uint32_t orders_max = kOrdersMax);

  /// `payments`: customers pay, at other warehouses too.
  std::vector<TableSpec> tables(bool payments) const;
  bool initial_value(RecordId record, std::span<std::byte> value) const;

  std::uint32_t warehouses() const { return nodes_ * per_node_; }
  std::uint32_t warehouses_per_node() const { return per_node_; }
  std::uint32_t items() const { return items_; }
  std::uint32_t orders_max() const { return orders_max_; }
  std::uint32_t home_of(std::uint32_t node, std::uint32_t local) const { return node * per_node_ + local; }
  std::int64_t price_cents(std::uint32_t item) const;

  RecordId warehouse(std::uint32_t w) const { return at(kWarehouse, w, 0, 1); }
  RecordId district(std::uint32_t w, std::uint32_t d) const { return at(kDistrict, w, d, kDistricts); }
  RecordId delivery_cursor(std::uint32_t w, std::uint32_t d) const {
    return at(kDeliveryCursor, w, d, kDistricts);
  }
  RecordId customer(std::uint32_t w, std::uint32_t d, std::uint32_t c) const {
    return at(kCustomer, w, d * kCustomers + c, kDistricts * kCustomers);
  }
  RecordId customer_data(std::uint32_t w, std::uint32_t d, std::uint32_t c) const {
    return at(kCustomerData, w, d * kCustomers + c, kDistricts * kCustomers);
  }
  RecordId last_order(std::uint32_t w, std::uint32_t d, std::uint32_t c) const {
    return at(kLastOrder, w, d * kCustomers + c, kDistricts * kCustomers);
  }
  RecordId history(std::uint32_t w, std::uint32_t d, std::uint32_t number) const {
    return at(kHistory, w, std::uint64_t{d} * kHistoryMax + number % kHistoryMax, kDistricts * kHistoryMax);
  }
  RecordId stock(std::uint32_t w, std::uint32_t item) const { return at(kStock, w, item, items_); }
  RecordId order(std::uint32_t w, std::uint32_t d, std::uint64_t o) const {
    return at(kOrder, w, order_key(d, o), kDistricts * orders_max_);
  }
  RecordId new_order(std::uint32_t w, std::uint32_t d, std::uint64_t o) const {
    return at(kNewOrder, w, order_key(d, o), kDistricts * orders_max_);
  }
  RecordId order_line(std::uint32_t w, std::uint32_t d, std::uint64_t o, std::uint32_t line) const {
    return at(kOrderLine, w, order_key(d, o) * kLinesMax + line, kDistricts * orders_max_ * kLinesMax);
  }
  /// The district of a record of the tables that have one row a district.
  struct Place {
    std::uint32_t warehouse, district;
  };
  Place place_of(RecordId district) const;

  /// The customers of a district that have a last name, ordered by first name: the same in all districts.
  std::span<const std::uint32_t> customers_called(std::uint32_t name) const { return by_name_[name]; }
  static constexpr std::uint32_t kNames = 1000;
  static constexpr std::uint32_t kBadCreditOneIn = 10;

 private:
  RecordId at(Table table, std::uint32_t w, std::uint64_t row, std::uint64_t rows) const {
    return RecordId::make(table, w / per_node_, (w % per_node_) * rows + row);
  }
  std::uint64_t order_key(std::uint32_t d, std::uint64_t o) const {
    return std::uint64_t{d} * orders_max_ + o % orders_max_;
  }

  std::uint32_t nodes_, per_node_, items_, orders_max_;
  std::vector<std::vector<std::uint32_t>> by_name_;
};

}  // namespace verbtwin::protocols::tpcc
