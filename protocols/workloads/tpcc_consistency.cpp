#include <fmt/format.h>

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

  void judge(std::uint32_t w, std::uint32_t d) {
    District district{};
    DeliveryCursor cursor{};
    rows_.get(data_.district(w, d), district);
    rows_.get(data_.delivery_cursor(w, d), cursor);
    place_ = fmt::format("warehouse {}, district {}", w, d);
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

  /// A row of an order that was there from the start has been written.
  void note_written(RecordId row) {
    const std::uint64_t key = row.table() == kOrderLine ? row.key() / kLinesMax : row.key();
    const std::uint64_t orders = data_.orders_max();
    if (key % orders >= kInitialOrders) return;
    const Data::Place place = data_.place_of(RecordId::make(kDistrict, row.partition(), key / orders));
    touched_.insert({place.warehouse, place.district, key % orders});
  }

 private:
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
    judge_lines(w, d, o, order);
  }

  /// Condition 4, order by order, and 7.
  void judge_lines(std::uint32_t w, std::uint32_t d, std::uint64_t o, const Order& order) {
    for (std::uint32_t line = 0; line < kLinesMax; ++line) {
      OrderLine row{};
      const bool exists = rows_.get(data_.order_line(w, d, o, line), row);
      if (exists != (line < order.lines)) complain("an order does not have its lines");
      if (exists && (row.delivered == 0) != (order.carrier == 0)) complain("an order is delivered in part");
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
  std::set<std::pair<std::uint32_t, std::uint32_t>> places;  // warehouse, district
  for (const RecordId record : accesses.written()) {
    if (record.table() == kOrder || record.table() == kNewOrder || record.table() == kOrderLine) {
      districts.note_written(record);
    }
    if (record.table() == kDistrict || record.table() == kDeliveryCursor) {
      const Data::Place place = data.place_of(record);
      places.insert({place.warehouse, place.district});
    } else if (record.table() == kWarehouse) {
      judge_warehouse(data, rows, data.home_of(record.partition(), static_cast<std::uint32_t>(record.key())),
                      findings);
    } else if (record.table() == kStock) {
      Stock stock{};
      rows.get(record, stock);
      taken += stock.ytd;
    }
  }
  for (const auto& [w, d] : places) districts.judge(w, d);
  if (taken != ordered) {
    findings.add("stock", [&] { return fmt::format("{} were ordered, {} left the stock", ordered, taken); });
  }
  return findings.report("tpcc_consistency", accesses.numbers().count());
}

}  // namespace verbtwin::protocols::tpcc
