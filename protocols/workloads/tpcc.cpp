#include "protocols/workloads/tpcc.hpp"

#include <bit>

#include "protocols/parameters.hpp"
#include "protocols/workloads/draws.hpp"

namespace verbtwin::protocols {

namespace tpcc {

std::uint32_t Terminal::non_uniform(std::uint32_t mask, std::uint32_t low, std::uint32_t count,
                                    std::uint32_t shift) {
  const std::uint32_t masked = random_(mask + 1);
  return ((masked | draw_between(random_, low, low + count - 1)) + shift) % count;
}

std::uint32_t Terminal::item() {
  return non_uniform(kItemMask, 1, data_.items(), kItemShift);
}

/// Clause 2.6.2.2: of n with the name the one at n / 2, rounded up, counted from 1.
std::uint32_t Terminal::customer_by_name() {
  const auto called = data_.customers_called(non_uniform(255, 0, Data::kNames, kNameShift));
  return called[(called.size() - 1) / 2];
}

std::uint32_t Terminal::other_warehouse() {
  const std::uint32_t other = random_(data_.warehouses() - 1);
  return other < home_ ? other : other + 1;
}

bool Terminal::draw_remote(std::uint32_t per_million) {
  const bool remote = draw_chance(random_, per_million);
  return remote && data_.warehouses() > 1;
}

}  // namespace tpcc

namespace {

using namespace tpcc;

enum Type : std::uint32_t { kNewOrderType, kPaymentType, kOrderStatusType, kDeliveryType, kStockLevelType };
constexpr std::array<std::string_view, 5> kNames = {"new_order", "payment", "order_status", "delivery",
                                                    "stock_level"};
constexpr std::array<std::uint32_t, 5> kMixPercent = {45, 43, 4, 4, 4};
constexpr auto kFullMix = std::to_array<parameters::Word<bool>>({{"new_order", false}, {"full", true}});

class Tpcc final : public Workload {
 public:
  Tpcc(const nlohmann::json& parameters, int nodes, int threads)
      : data_(static_cast<std::uint32_t>(nodes), parameters.at("warehouses_per_node").get<std::uint32_t>(),
              parameters.at("items").get<std::uint32_t>()),
        threads_(static_cast<std::uint32_t>(threads)),
        full_mix_(parameters::value_of(kFullMix, parameters.at("mix"))),
        remote_line_(per_million(parameters.at("remote_share").get<double>())) {
    for (std::uint32_t item = 0; item < data_.items(); ++item) popular_items_ += popular_item(item) ? 1U : 0U;
  }

  std::span<const std::string_view> transaction_names() const override {
    return std::span(kNames).first(full_mix_ ? kNames.size() : 1);
  }
  std::vector<TableSpec> tables() const override { return data_.tables(full_mix_); }
  PhaseCycles cycles() const override { return {342, 454, 363, 108}; }  // Wei et al., OSDI 2018, table 3

  // New-order: warehouse, district, customer, stocks, order, new-order, last order, lines. Delivery is
  // larger: a cursor, new-order, order, customer and lines of each district.
  std::size_t records_max() const override { return full_mix_ ? kDeliveredRows : 6 + 2 * kLinesMax; }
  std::size_t writes_max() const override { return full_mix_ ? kDeliveredRows : 4 + 2 * kLinesMax; }
  std::size_t partitions_written_max() const override { return 1 + kLinesMax; }
  std::size_t written_b_max() const override {
    if (full_mix_) {
      return kDistricts * (sizeof(DeliveryCursor) + sizeof(NewOrder) + sizeof(Order) + sizeof(Customer) +
                           kLinesMax * sizeof(OrderLine));
    }
    return sizeof(District) + sizeof(Order) + sizeof(NewOrder) + sizeof(LastOrder) +
           kLinesMax * (sizeof(Stock) + sizeof(OrderLine));
  }

  bool initial_value(RecordId record, std::span<std::byte> value) const override {
    return data_.initial_value(record, value);
  }

  // What is looked for at other nodes is stock, and items are drawn with more ones in their low bits than
  // zeros (NURand, clause 2.1.6): a cache that has long been in use holds the stock of those that are drawn
  // more than twice as often as the average.
  bool popular(RecordId record) const override {
    return record.table() == kStock && popular_item(static_cast<std::uint32_t>(record.key() % data_.items()));
  }
  std::uint64_t popular_records() const override { return popular_items_ * data_.warehouses(); }
  std::uint64_t records() const override {
    // Those of other nodes are asked for by payments alone, with a note on one in ten for their bad credit.
    const std::uint64_t customers = full_mix_ ? kDistricts * kCustomers : 0;
    const std::uint64_t noted = customers / 10;
    return data_.warehouses() * (data_.items() + customers + noted);
  }

  Request draw(pcg32& random, Client client) const override {
    Request request;
    if (full_mix_) request.type = draw_percent(random, kMixPercent);
    const auto node = static_cast<std::uint32_t>(client.node),
               thread = static_cast<std::uint32_t>(client.thread);
    const std::uint32_t count = data_.warehouses_per_node();
    // This worker's homes are thread, thread + threads, ...
    const std::uint32_t homes = thread < count ? (count - thread + threads_ - 1) / threads_ : 1;
    request.arguments[0] = data_.home_of(node, (thread + threads_ * random(homes)) % count);
    request.arguments[1] = random();
    request.arguments[2] = random();
    return request;
  }

  Task<Outcome> run(Transaction& tx, Request request) const override {
    const Terminal terminal(data_, request, remote_line_);
    switch (request.type) {
      case kNewOrderType:
        return run_new_order(data_, tx, terminal, full_mix_);
      case kPaymentType:
        return run_payment(data_, tx, terminal);
      case kOrderStatusType:
        return run_order_status(data_, tx, terminal);
      case kDeliveryType:
        return run_delivery(data_, tx, terminal);
      default:
        return run_stock_level(data_, tx, terminal);
    }
  }

  CheckReport check_invariant(const GroupedAccesses& accesses, const FinalValue& value) const override {
    return check_consistency(data_, accesses, value);
  }

 private:
  static constexpr std::size_t kDeliveredRows = kDistricts * (4 + kLinesMax);

  bool popular_item(std::uint32_t item) const {
    const std::uint32_t drawn = (item + data_.items() - Terminal::kItemShift % data_.items()) % data_.items();
    return std::popcount(drawn & Terminal::kItemMask) >= 8;
  }

  Data data_;
  std::uint32_t threads_;
  bool full_mix_;
  std::uint32_t remote_line_;
  std::uint64_t popular_items_ = 0;
};

}  // namespace

RegistryEntry tpcc_entry() {
  using namespace parameters;
  return {
      "tpcc",
      "TPC-C: new-order alone or all five transactions, with any share of remote order lines",
      {{"properties",
        {{"mix", choice("new_order", kFullMix,
                        "new-order alone, or 45 new-order, 43 payment, 4 order-status, 4 delivery, 4 "
                        "stock-level")},
         {"warehouses_per_node",
          number(24, 1, 4096, "warehouses of a node; its worker t's are t, t + threads, ...")},
         {"items", number(100'000, 100, 100'000, "items in the catalogue, and stock rows of a warehouse")},
         {"remote_share", real(0.01, 0, 1,
                               "probability that an order line is supplied by another warehouse, any of "
                               "the cluster's")}}}}};
}

std::unique_ptr<Workload> make_tpcc(const nlohmann::json& parameters, int nodes, int threads) {
  return std::make_unique<Tpcc>(parameters, nodes, threads);
}

}  // namespace verbtwin::protocols
