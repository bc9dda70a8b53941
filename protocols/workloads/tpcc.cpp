#include "protocols/workloads/tpcc.hpp"

#include <bit>
#include <cmath>

#include "protocols/parameters.hpp"
#include "protocols/workloads/draws.hpp"
#include "protocols/workloads/mix.hpp"

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
std::uint32_t Terminal::middle_of(std::span<const std::uint32_t> called) {
  return called[(called.size() - 1) / 2];
}

std::uint32_t Terminal::customer() {
  return non_uniform(kIdMask, 1, kCustomers, kIdShift);
}
std::uint32_t Terminal::customer_by_name() {
  return middle_of(data_.customers_called(non_uniform(kNameMask, 0, Data::kNames, kNameShift)));
}

/// Whose low bits are l comes of a number with low bits k, a part of l, by as many draws of the mask as k has
/// parts: summed over the k there are in each block of numbers.
std::vector<double> Terminal::shares(std::uint32_t mask, std::uint32_t low, std::uint32_t count,
                                     std::uint32_t shift) {
  std::vector<double> shares(count);
  std::vector<double> ways(mask + 1);
  for (std::uint32_t block = 0; block < low + count; block += mask + 1) {
    for (std::uint32_t k = 0; k <= mask; ++k) {
      const bool is_there = block + k >= low && block + k < low + count;
      ways[k] = is_there ? std::ldexp(1, std::popcount(k)) : 0;
    }
    for (std::uint32_t bit = 1; bit <= mask; bit <<= 1) {
      for (std::uint32_t l = 0; l <= mask; ++l) ways[l] += (l & bit) != 0 ? ways[l ^ bit] : 0;
    }
    for (std::uint32_t l = 0; l <= mask; ++l)
      shares[(block + l + shift) % count] += ways[l] / ((mask + 1.0) * count);
  }
  return shares;
}

std::vector<double> Terminal::payers(const Data& data) {
  constexpr double kByName = kByNamePercent / 100.0;
  std::vector<double> payers = shares(kIdMask, 1, kCustomers, kIdShift);
  for (double& share : payers) share *= 1 - kByName;
  const std::vector<double> names = shares(kNameMask, 0, Data::kNames, kNameShift);
  for (std::uint32_t name = 0; name < names.size(); ++name)
    payers[middle_of(data.customers_called(name))] += kByName * names[name];
  return payers;
}

std::vector<double> Terminal::ordered(const Data& data) {
  return shares(kItemMask, 1, data.items(), kItemShift);
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
constexpr MixPercent<5> kMixPercent = {45, 43, 4, 4, 4};
constexpr auto kFullMix = std::to_array<parameters::Word<bool>>({{"new_order", false}, {"full", true}});

class Tpcc final : public Workload {
 public:
  Tpcc(const nlohmann::json& parameters, int nodes, int threads)
      : data_(static_cast<std::uint32_t>(nodes), parameters.at("warehouses_per_node").get<std::uint32_t>(),
              parameters.at("items").get<std::uint32_t>()),
        threads_(static_cast<std::uint32_t>(threads)),
        mix_(mix_percent_of(parameters, kNames, kMixPercent)),
        full_mix_(parameters::value_of(kFullMix, parameters.at("mix")) ||
                  !parameters.value("mix_percent", nlohmann::json::object()).empty()),
        remote_line_(per_million(parameters.at("remote_share").get<double>())) {
    classify();
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

  const std::vector<RecordClass>& classes() const override { return classes_; }
  std::size_t class_of(RecordId record) const override {
    switch (record.table()) {
      case kStock:
        return class_of_item_[record.key() % data_.items()];
      case kCustomer:
      case kCustomerData:
        if (!full_mix_) return kNoClass;
        return class_of_customer_[record.key() % kCustomers] +
               (record.table() == kCustomerData ? kClasses : 0);
      default:
        return kNoClass;
    }
  }

  Request draw(pcg32& random, Client client) const override {
    Request request;
    if (full_mix_) request.type = draw_percent(random, mix_);
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
  static constexpr std::size_t kClasses = 40;  // of a table
  static constexpr std::size_t kDeliveredRows = kDistricts * (4 + kLinesMax);

  /// What is looked up at other nodes is the stock of remote lines, and the customers of remote payments,
  /// with a note on those of bad credit.
  void classify() {
    constexpr double kLines = 10;  // of an order, in the mean
    const double orders = full_mix_ ? mix_[kNewOrderType] / 100.0 : 1;
    class_of_item_ = add_classes(kStock, Terminal::ordered(data_), data_.warehouses(),
                                 orders * kLines * remote_line_ / 1e6);
    if (!full_mix_) return;
    const double payments = mix_[kPaymentType] / 100.0 * Terminal::kRemotePayments / 1e6;
    class_of_customer_ =
        add_classes(kCustomer, Terminal::payers(data_), data_.warehouses() * kDistricts, payments);
    for (std::size_t i = 0; i < kClasses; ++i) {
      const RecordClass customers = classes_[class_of_customer_.front() / kClasses * kClasses + i];
      classes_.push_back({kCustomerData, customers.records / Data::kBadCreditOneIn, customers.drawn});
    }
  }

  /// By half powers of two of the share that a row has of those of its warehouse or district, of which there
  /// are `copies`. Returns each row's class.
  std::vector<std::size_t> add_classes(std::uint32_t table, const std::vector<double>& shares,
                                       std::uint64_t copies, double draws) {
    const std::size_t first = classes_.size();
    for (std::size_t i = 0; i < kClasses; ++i) classes_.push_back({table, 0, 0});
    std::vector<std::size_t> class_of;
    for (const double share : shares) {
      const double step = share > 0 ? 2 * std::log2(share * static_cast<double>(shares.size())) : -100;
      const double middle = kClasses / 2;
      class_of.push_back(
          first + static_cast<std::size_t>(std::clamp(std::round(step) + middle, 0.0, kClasses - 1.0)));
      RecordClass& one = classes_[class_of.back()];
      one.records += copies;
      one.drawn += share * draws;
    }
    for (std::size_t i = first; i < classes_.size(); ++i)
      classes_[i].drawn /= static_cast<double>(std::max<std::uint64_t>(classes_[i].records, 1));
    return class_of;
  }

  Data data_;
  std::uint32_t threads_;
  MixPercent<5> mix_;  // of all five
  bool full_mix_;
  std::uint32_t remote_line_;
  std::vector<RecordClass> classes_;
  std::vector<std::size_t> class_of_item_, class_of_customer_;  // the same in all warehouses and districts
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
         {"mix_percent", mix_percent_schema(kNames, "what `mix` says")},
         {"warehouses_per_node",
          number(24, 1, 1747, "warehouses of a node; its worker t's are t, t + threads, ...")},
         {"items", number(100'000, 100, 100'000, "items in the catalogue, and stock rows of a warehouse")},
         {"remote_share", real(0.01, 0, 1,
                               "probability that an order line is supplied by another warehouse, any of "
                               "the cluster's")}}}}};
}

std::unique_ptr<Workload> make_tpcc(const nlohmann::json& parameters, int nodes, int threads) {
  return std::make_unique<Tpcc>(parameters, nodes, threads);
}

}  // namespace verbtwin::protocols
