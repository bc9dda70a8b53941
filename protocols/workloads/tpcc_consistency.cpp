#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>

#include "protocols/workloads/invariants.hpp"
#include "protocols/workloads/tpcc.hpp"

namespace verbtwin::protocols::tpcc {

namespace {

/// Rows as they are at the end of a run.
class Rows {
 public:
  Rows(const Data& data, const FinalValue& value) : data_(data), value_(value) {}

  template <typename Row>
  bool get(RecordId record, Row& row) const {
    return value_(record, std::as_writable_bytes(std::span(&row, 1)));
  }
  bool has_new_order(std::uint32_t w, std::uint32_t d, std::uint64_t o) const {
    NewOrder row;
    return get(data_.new_order(w, d, o), row);
  }

 private:
  const Data& data_;
  const FinalValue& value_;
};

class DistrictJudge {
 public:
  DistrictJudge(const Data& data, const Rows& rows, Findings& findings)
      : data_(data), rows_(rows), findings_(findings) {}

  /// `credited_cents`: what its customers' balances and payments together changed by.
  void judge(std::uint32_t w, std::uint32_t d, std::int64_t credited_cents) {
    District district{};
    DeliveryCursor cursor{};
    rows_.get(data_.district(w, d), district);
    rows_.get(data_.delivery_cursor(w, d), cursor);
    place_ = fmt::format("warehouse {}, district {}", w, d);
    judge_history(w, d, district);
    judge_credits(w, d, district, cursor, credited_cents);
    // Conditions 2 and 3: order numbers are without gap up to the district's next, those of new-orders from
    // the first one that was not delivered.
    Order older{};  // which the next one will replace
    if (rows_.get(data_.order(w, d, district.next_order), older) &&
        older.entered + data_.orders_max() != district.next_order) {
      complain("an order beyond the last one");
    }
    const std::uint64_t oldest = district.next_order > data_.orders_max()
                                     ? district.next_order - data_.orders_max()
                                     : kInitialDelivered;
    for (std::uint64_t o = oldest; o < district.next_order; ++o) {
      // Nobody touched it, so that it is as the rules for initial contents have it.
      if (o >= cursor.next && o < kInitialOrders && !touched(w, d, o)) continue;
      judge_order(w, d, o, cursor.next);
    }
  }

  /// Condition 8, district by district; where older rows have made room, that the others are there.
  void judge_history(std::uint32_t w, std::uint32_t d, const District& district) {
    const std::uint32_t end = district.next_history, first = end > kHistoryMax ? end - kHistoryMax : 0;
    std::int64_t paid = first == 0 ? before<District>(data_.district(w, d)).ytd_cents : 0;
    for (std::uint32_t number = first; number < end; ++number) {
      History row{};
      if (!rows_.get(data_.history(w, d, number), row)) complain("a payment has no history");
      paid += row.amount_cents;
    }
    if (first == 0 && paid != district.ytd_cents) complain("a history does not add up to year-to-date");
  }

  /// Conditions 10 and 12: what was delivered is what customers owe or have paid; as long as no order of the
  /// first ones has made room.
  void judge_credits(std::uint32_t w, std::uint32_t d, const District& district, const DeliveryCursor& cursor,
                     std::int64_t credited_cents) {
    if (district.next_order > data_.orders_max()) return;
    for (std::uint64_t o = kInitialDelivered; o < cursor.next; ++o) {
      for (std::uint32_t line = 0; line < kLinesMax; ++line) {
        OrderLine row{};
        if (rows_.get(data_.order_line(w, d, o, line), row)) credited_cents -= row.amount_cents;
      }
    }
    if (credited_cents != 0) complain("customers do not owe what was delivered");
  }

  /// A row of an order that was there from the start has been written.
  void note_written(RecordId row) {
    const std::uint64_t key = row.table() == kOrderLine ? row.key() / kLinesMax : row.key();
    const std::uint64_t orders = data_.orders_max();
    if (key % orders >= kInitialOrders) return;
    const Data::Place place = data_.place_of(RecordId::make(kDistrict, row.partition(), key / orders));
    touched_.insert({place.warehouse, place.district, key % orders});
  }

 private:
  template <typename Row>
  Row before(RecordId record) const {
    Row row{};
    data_.initial_value(record, std::as_writable_bytes(std::span(&row, 1)));
    return row;
  }
  bool touched(std::uint32_t w, std::uint32_t d, std::uint64_t o) const {
    return touched_.contains({w, d, o});
  }

  void judge_order(std::uint32_t w, std::uint32_t d, std::uint64_t o, std::uint64_t next_delivery) {
    Order order{};
    if (!rows_.get(data_.order(w, d, o), order)) {
      complain("an order is missing");
      return;
    }
    if (order.entered != o) complain("an order has the place of another one");
    if (rows_.has_new_order(w, d, o) != (o >= next_delivery)) complain("a new-order does not fit deliveries");
    if ((order.carrier == 0) != (o >= next_delivery)) complain("an order's carrier does not fit deliveries");
    LastOrder last{};
    rows_.get(data_.last_order(w, d, order.customer), last);
    if (o >= kInitialOrders && last.order < o) complain("a customer's last order is an older one");
    judge_lines(w, d, o, order);
  }

  /// Condition 4, order by order, and 7.
  void judge_lines(std::uint32_t w, std::uint32_t d, std::uint64_t o, const Order& order) {
    for (std::uint32_t line = 0; line < kLinesMax; ++line) {
      OrderLine row{};
      const bool exists = rows_.get(data_.order_line(w, d, o, line), row);
      if (exists != (line < order.lines)) complain("an order does not have its lines");
      if (exists && (row.delivered == 0) != (order.carrier == 0)) complain("an order is delivered in part");
      if (exists && o >= kInitialOrders && row.amount_cents != row.quantity * data_.price_cents(row.item))
        complain("an order's line has another price");
    }
  }

  void complain(std::string_view what) {
    findings_.add(what, [&] { return fmt::format("{}: {}", place_, what); });
  }

  const Data& data_;
  const Rows& rows_;
  Findings& findings_;
  std::string place_;
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>> touched_;  // warehouse, district, order
};

/// Condition 1: a warehouse's year-to-date is its districts'.
void judge_warehouse(const Data& data, const Rows& rows, std::uint32_t w, Findings& findings) {
  Warehouse warehouse{};
  rows.get(data.warehouse(w), warehouse);
  std::int64_t sum = 0;
  for (std::uint32_t d = 0; d < kDistricts; ++d) {
    District district{};
    rows.get(data.district(w, d), district);
    sum += district.ytd_cents;
  }
  if (sum == warehouse.ytd_cents) return;
  findings.add("year-to-date", [&] {
    return fmt::format("warehouse {} took {} cents, its districts {}", w, warehouse.ytd_cents, sum);
  });
}

/// What payments did to warehouses and customers, in all of them.
struct Payments {
  std::int64_t taken_cents = 0, paid_cents = 0;
  std::int64_t rows = 0, payments = 0;
};

/// Clause 2.4.2.2: what is taken is replenished by 91 as soon as less than 10 would be left.
bool is_replenished(const Stock& before, const Stock& now) {
  constexpr std::int64_t kReplenished = 91;
  const std::int64_t taken = before.quantity - std::int64_t{now.ytd} + before.ytd - now.quantity;
  return now.quantity >= 10 && now.quantity <= 100 && taken % kReplenished == 0;
}

}  // namespace

CheckReport check_consistency(const Data& data, const GroupedAccesses& accesses, const FinalValue& value) {
  Findings findings;
  const Rows rows(data, value);
  DistrictJudge districts(data, rows, findings);
  // By the transactions, not by the orders' lines: old ones have gone.
  std::int64_t taken = 0, ordered = 0;
  for (const auto* history : accesses.histories()) {
    for (std::size_t i = 0; i < history->size(); ++i) ordered += (*history)[i].effect;
  }
  Payments payments;
  // By warehouse and district: what its customers' balances and payments together changed by.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> places;
  const auto before_and_now = [&]<typename Row>(RecordId record, Row& before, Row& now) {
    data.initial_value(record, std::as_writable_bytes(std::span(&before, 1)));
    rows.get(record, now);
  };
  for (const RecordId record : accesses.written()) {
    if (record.table() == kOrder || record.table() == kNewOrder || record.table() == kOrderLine) {
      districts.note_written(record);
    }
    if (record.table() == kDistrict || record.table() == kDeliveryCursor) {
      const Data::Place place = data.place_of(record);
      places[{place.warehouse, place.district}];
    }
    if (record.table() == kDistrict) {
      District before{}, now{};
      before_and_now(record, before, now);
      payments.rows += now.next_history - before.next_history;
    } else if (record.table() == kWarehouse) {
      Warehouse before{}, now{};
      before_and_now(record, before, now);
      payments.taken_cents += now.ytd_cents - before.ytd_cents;
      judge_warehouse(data, rows, data.home_of(record.partition(), static_cast<std::uint32_t>(record.key())),
                      findings);
    } else if (record.table() == kCustomer) {
      Customer before{}, now{};
      before_and_now(record, before, now);
      const std::int64_t paid = now.ytd_payment_cents - before.ytd_payment_cents;
      payments.paid_cents += paid;
      payments.payments += now.payments - before.payments;
      const Data::Place place =
          data.place_of(RecordId::make(kDistrict, record.partition(), record.key() / kCustomers));
      places[{place.warehouse, place.district}] += now.balance_cents - before.balance_cents + paid;
    } else if (record.table() == kStock) {
      Stock before{}, now{};
      before_and_now(record, before, now);
      taken += now.ytd;
      if (!is_replenished(before, now)) {
        findings.add("quantity", [&] {
          return fmt::format("a stock of {} has become {}, {} were taken", before.quantity, now.quantity,
                             now.ytd);
        });
      }
    }
  }
  for (const auto& [place, credited_cents] : places)
    districts.judge(place.first, place.second, credited_cents);
  if (payments.taken_cents != payments.paid_cents || payments.rows != payments.payments) {
    findings.add("payments", [&] {
      return fmt::format("{} payments of {} cents by customers, {} of {} at warehouses", payments.payments,
                         payments.paid_cents, payments.rows, payments.taken_cents);
    });
  }
  if (taken != ordered) {
    findings.add("stock", [&] { return fmt::format("{} were ordered, {} left the stock", ordered, taken); });
  }
  return findings.report("tpcc_consistency", accesses.numbers().count());
}

}  // namespace verbtwin::protocols::tpcc
