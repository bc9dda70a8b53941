#include "protocols/workloads/tpcc_data.hpp"

#include <algorithm>
#include <cstring>

#include "protocols/workloads/draws.hpp"

namespace verbtwin::protocols::tpcc {

namespace {

// Initial orders are a permutation of the customers: order o is customer (o * kStep) % kCustomers's.
constexpr std::uint32_t kStep = 1409;
constexpr std::uint32_t kStepInverse = 2489;
static_assert(kStep * kStepInverse % kCustomers == 1);

constexpr std::int64_t kWarehouseYtdCents = 30'000'000;
constexpr std::int64_t kDistrictYtdCents = kWarehouseYtdCents / kDistricts;

template <typename Row>
bool put(std::span<std::byte> value, const Row& row) {
  std::memcpy(value.data(), &row, sizeof row);
  return true;
}

/// A number in [0, bound) that belongs to a record.
std::uint32_t mixed(RecordId record, std::uint64_t bound, std::uint64_t salt = 0) {
  return static_cast<std::uint32_t>(spread(record.packed ^ salt << 60) % bound);
}

Order initial_order(RecordId record, std::uint64_t o) {
  Order order{};
  order.entered = o;
  order.customer = static_cast<std::uint32_t>(o * kStep % kCustomers);
  order.lines = static_cast<std::uint16_t>(kLinesMin + mixed(record, kLinesMax - kLinesMin + 1));
  order.carrier =
      o < kInitialDelivered ? static_cast<std::uint8_t>(1 + mixed(record, 10, 1)) : std::uint8_t{0};
  order.all_local = 1;
  return order;
}

}  // namespace

Data::Data(std::uint32_t nodes, std::uint32_t warehouses_per_node, std::uint32_t items,
           std::uint32_t orders_max)
    : nodes_(nodes),
      per_node_(warehouses_per_node),
      items_(items),
      orders_max_(orders_max),
      by_name_(kNames) {
  // Clause 4.3.2.3: the first 1,000 customers have all names, the others are drawn (NURand, its constant
  // C-Load being 0); first names are random.
  std::vector<std::uint32_t> customers(kCustomers);
  for (std::uint32_t c = 0; c < kCustomers; ++c) customers[c] = c;
  std::ranges::sort(customers, {}, [](std::uint32_t c) { return spread(c); });
  for (const std::uint32_t c : customers) {
    const std::uint64_t drawn = spread(c + 77'777);
    const auto name = static_cast<std::uint32_t>(((drawn & 255) | (drawn >> 8) % kNames) % kNames);
    by_name_[c < kNames ? c : name].push_back(c);
  }
}

std::vector<TableSpec> Data::tables(bool payments) const {
  const std::uint64_t w = per_node_, d = w * kDistricts, c = d * kCustomers, o = d * orders_max_;
  constexpr bool kLocal = true;
  std::vector<TableSpec> tables = {{"warehouse", sizeof(Warehouse), w, kLocal},
                                   {"district", sizeof(District), d, kLocal},
                                   {"customer", sizeof(Customer), c, !payments},
                                   {"stock", sizeof(Stock), w * items_},
                                   {"order", sizeof(Order), o, kLocal},
                                   {"new_order", sizeof(NewOrder), o, kLocal},
                                   {"order_line", sizeof(OrderLine), o * kLinesMax, kLocal},
                                   {"history", sizeof(History), d * kHistoryMax, kLocal},
                                   {"last_order", sizeof(LastOrder), c, kLocal},
                                   {"delivery_cursor", sizeof(DeliveryCursor), d, kLocal}};
  if (payments) tables.push_back({"customer_data", sizeof(CustomerData), c});
  return tables;
}

std::int64_t Data::price_cents(std::uint32_t item) const {
  return 100 + static_cast<std::int64_t>(spread(item) % 9'901);
}

Data::Place Data::place_of(RecordId district) const {
  return {home_of(district.partition(), static_cast<std::uint32_t>(district.key() / kDistricts)),
          static_cast<std::uint32_t>(district.key() % kDistricts)};
}

bool Data::initial_value(RecordId record, std::span<std::byte> value) const {
  std::ranges::fill(value, std::byte{0});
  const std::uint64_t key = record.key();
  const std::uint64_t o = key % orders_max_;  // of orders and new-orders
  switch (record.table()) {
    case kWarehouse:
      return put(value, Warehouse{kWarehouseYtdCents, mixed(record, 2001), 0});
    case kDistrict:
      return put(value, District{kDistrictYtdCents, kInitialOrders, mixed(record, 2001), 0, 0});
    case kCustomer:
      return put(value, Customer{-1000, 1000, 1, 0, mixed(record, 5001),
                                 mixed(record, kBadCreditOneIn, 1) == 0 ? 1U : 0U});
    case kStock:
      return put(value, Stock{static_cast<std::int32_t>(10 + mixed(record, 91)), 0, 0, 0});
    case kOrder:
      return o < kInitialOrders && put(value, initial_order(record, o));
    case kNewOrder:
      return o >= kInitialDelivered && o < kInitialOrders && put(value, NewOrder{o});
    case kOrderLine: {
      const std::uint64_t of_order = key / kLinesMax % orders_max_, line = key % kLinesMax;
      const RecordId order = RecordId::make(kOrder, record.partition(), key / kLinesMax);
      if (of_order >= kInitialOrders || line >= initial_order(order, of_order).lines) return false;
      OrderLine row{};
      row.item = mixed(record, items_);
      row.supply_warehouse =
          home_of(record.partition(), static_cast<std::uint32_t>(key / kLinesMax / orders_max_ / kDistricts));
      row.quantity = 5;
      if (of_order < kInitialDelivered) {
        row.delivered = 1 + of_order;
      } else {
        row.amount_cents = 1 + mixed(record, 999'999, 1);
      }
      return put(value, row);
    }
    case kLastOrder:
      return put(value, LastOrder{key % kCustomers * kStepInverse % kCustomers});
    case kDeliveryCursor:
      return put(value, DeliveryCursor{kInitialDelivered});
    case kCustomerData: {
      CustomerData row{};
      for (std::uint32_t at = 0; at < 300 + mixed(record, 201, 1); ++at)
        row.text[at] = static_cast<char>('a' + (at + spread(record.packed)) % 26);
      return put(value, row);
    }
    default:
      return false;  // the history of the first payments, which nobody reads, is left out
  }
}

}  // namespace verbtwin::protocols::tpcc
