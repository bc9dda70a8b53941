// The result of a run, in the shape of tools/RESULT.md, from what its workers counted.
//
// Pure functions; the pointers in their input are only read during the call.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "protocols/checks/report.hpp"
#include "protocols/micro/benchmark.hpp"
#include "protocols/ramp/statistics.hpp"
#include "protocols/statistics.hpp"
#include "scenarios/scenario.hpp"
#include "sim/cluster.hpp"

namespace verbtwin::tools {

/// What every run has.
struct RunInput {
  const scenarios::Scenario* scenario = nullptr;
  bool partial = false;
  bool unchecked = false;  // transactions are still under way
  std::int64_t window_ps = 0;
  const sim::Usage* before = nullptr;  // at the window's ends
  const sim::Usage* after = nullptr;
  const sim::Usage* middle = nullptr;  // half-way; null: nobody looked
  // What came to its end in the window's halves; both 0 where nobody looked.
  std::uint64_t finished_early = 0, finished_late = 0;
};

/// What a protocol family calls its parts.
struct TransactionNames {
  std::vector<std::string_view> phases, aborts;  // aborts: by reason, the first one "none"
};
const TransactionNames& occ_names();
const TransactionNames& ramp_names();

struct TransactionsInput : RunInput {
  std::span<const std::string_view> transaction_names;
  const TransactionNames* names = &occ_names();
  std::vector<const protocols::WorkerStatistics*> workers;
  std::vector<protocols::CheckReport> checks;
};

struct RampInput : TransactionsInput {
  std::vector<const protocols::RampStatistics*> clients;  // make_result() puts them among the workers
  std::uint64_t collected_early = 0;                      // versions
};

struct OperationsInput : RunInput {
  std::vector<const protocols::OperationStatistics*> workers;
  int machines = 1;  // that the rate is over (Benchmark::machines)
};

/// Everything but "simulator".
nlohmann::json make_result(const TransactionsInput& input);
nlohmann::json make_result(RampInput input);
nlohmann::json make_result(const OperationsInput& input);

/// An item of a result's "checks".
nlohmann::json check_json(const protocols::CheckReport& check);

}  // namespace verbtwin::tools
