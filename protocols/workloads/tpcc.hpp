// TPC-C (TPC Benchmark C, revision 5.11): new-order alone, as the OSDI 2018 and FaRM comparisons run it, or
// the five transactions of the standard mix.
//
// A warehouse's rows live on one node; worker t's home warehouses are t, t + threads, ... of its node. An
// order line is supplied by another warehouse, any of the cluster's, with probability remote_share (1 % in
// the standard; 1 in the comparisons). Items are a read-only catalogue on every node.
//
// Delivery delivers all ten districts in one transaction; stock-level reads without validation, as clause
// 2.8.2.3 allows.
#pragma once

#include "protocols/registry.hpp"
#include "protocols/workloads/tpcc_data.hpp"
#include "protocols/workloads/workload.hpp"

namespace verbtwin::protocols {

RegistryEntry tpcc_entry();
std::unique_ptr<Workload> make_tpcc(const nlohmann::json& parameters, int nodes, int threads);

namespace tpcc {

/// The consistency conditions of clause 3.3.2 (1 to 4, 7) on every district that was written, and that what
/// was ordered is what left the stock.
CheckReport check_consistency(const Data& data, const GroupedAccesses& accesses, const FinalValue& value);

/// The inputs of a transaction, the same in every attempt: drawn from the request's own stream.
class Terminal {
 public:
  Terminal(const Data& data, const Request& request, std::uint32_t remote_line_per_million)
      : data_(data),
        random_(request.arguments[1], request.arguments[2]),
        remote_line_per_million_(remote_line_per_million),
        home_(static_cast<std::uint32_t>(request.arguments[0])) {}

  std::uint32_t home() const { return home_; }
  pcg32& random() { return random_; }
  std::uint32_t district() { return random_(kDistricts); }
  std::uint32_t customer();
  std::uint32_t customer_by_name();
  /// Clause 2.5.1.2: who pays, or asks for the status of an order, is called by name.
  bool is_by_name() { return random_(100) < kByNamePercent; }
  std::uint32_t item();
  std::uint32_t other_warehouse();
  bool line_is_remote() { return draw_remote(remote_line_per_million_); }
  bool payment_is_remote() { return draw_remote(kRemotePayments); }

  /// By customer, of a district: its share of the payments there. By item: its share of the orders' lines.
  static std::vector<double> payers(const Data& data);
  static std::vector<double> ordered(const Data& data);

  static constexpr std::uint32_t kRemotePayments = 150'000;  // of a million
  static constexpr std::uint32_t kItemMask = 8191, kItemShift = 7911;
  /// C-Run of last names, 65 to 119 from C-Load, which is 0, and neither 96 nor 112 (clause 2.1.6.1).
  static constexpr std::uint32_t kNameShift = 87;

 private:
  static constexpr std::uint32_t kByNamePercent = 60;
  static constexpr std::uint32_t kIdMask = 1023, kIdShift = 259, kNameMask = 255;

  /// How often non_uniform() draws each number.
  static std::vector<double> shares(std::uint32_t mask, std::uint32_t low, std::uint32_t count,
                                    std::uint32_t shift);
  static std::uint32_t middle_of(std::span<const std::uint32_t> called);
  /// NURand over `count` numbers from `low` on (clause 2.1.6), counted from 0.
  std::uint32_t non_uniform(std::uint32_t mask, std::uint32_t low, std::uint32_t count, std::uint32_t shift);
  bool draw_remote(std::uint32_t per_million);

  const Data& data_;
  pcg32 random_;
  std::uint32_t remote_line_per_million_;
  std::uint32_t home_;
};

// tpcc_transactions.cpp; `data` outlives the coroutine. `delivered`: there are deliveries in the mix.
Task<Outcome> run_new_order(const Data& data, Transaction& tx, Terminal terminal, bool delivered);
Task<Outcome> run_payment(const Data& data, Transaction& tx, Terminal terminal);
Task<Outcome> run_order_status(const Data& data, Transaction& tx, Terminal terminal);
Task<Outcome> run_delivery(const Data& data, Transaction& tx, Terminal terminal);
Task<Outcome> run_stock_level(const Data& data, Transaction& tx, Terminal terminal);

}  // namespace tpcc

}  // namespace verbtwin::protocols
