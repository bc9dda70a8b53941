// Workload: what transactions there are, on what data, in what mix, and what must hold of the data
// afterwards.
//
// Made once per run and shared by all workers. draw() and run() are called by the thread of the Client's
// worker, the rest by any. A request is drawn once and run until it commits, with the same inputs: run()
// draws nothing, and what does not fit into its arguments follows from a seed among them.
//
// What a transaction declares must be there (table, partition, key), once, and within the maxima below, by
// which buffers, log rings and packets are sized: a std::logic_error ends the program where it is not, but
// for what exceeds writes_max(), partitions_written_max() or written_b_max(), which only debug builds assert.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <pcg_random.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "protocols/checks/accesses.hpp"
#include "protocols/checks/report.hpp"
#include "protocols/occ/transaction.hpp"
#include "protocols/store/layout.hpp"
#include "protocols/store/location_cache.hpp"

namespace verbtwin::protocols {

struct Request {
  std::uint32_t type = 0;  // index into transaction_names()
  std::array<std::uint64_t, 3> arguments{};
};

/// kCommitted: commit() returned true, or the application asks for no isolation of what it read (TPC-C's
/// stock-level); no check knows the one from the other. kAborted: it or execute() returned false; the request
/// is run again. kUserAborted: the application does not want it; not run again.
enum class Outcome : std::uint8_t { kCommitted, kAborted, kUserAborted };
inline Outcome outcome_of(bool committed) {
  return committed ? Outcome::kCommitted : Outcome::kAborted;
}

/// The worker that draws a request.
struct Client {
  int node = 0, thread = 0;
};

/// The value of a record at the end of a run; false: it does not exist.
using FinalValue = std::function<bool(RecordId, std::span<std::byte>)>;

class Workload : public InitialValues, public Popularity {
 public:
  virtual std::span<const std::string_view> transaction_names() const = 0;
  virtual std::vector<TableSpec> tables() const = 0;
  virtual PhaseCycles cycles() const = 0;
  /// Records that one transaction touches at most, and those it writes.
  virtual std::size_t records_max() const = 0;
  virtual std::size_t writes_max() const = 0;
  /// Partitions that it writes to at most.
  virtual std::size_t partitions_written_max() const { return writes_max(); }
  /// Bytes of the values that one transaction writes at most, each padded to 8.
  virtual std::size_t written_b_max() const;

  virtual Request draw(pcg32& random, Client client) const = 0;
  virtual Task<Outcome> run(Transaction& transaction, Request request) const = 0;

  /// Compares the data at the end with what the committed transactions say they did to it.
  virtual CheckReport check_invariant(const GroupedAccesses& accesses, const FinalValue& value) const = 0;
};

std::unique_ptr<Workload> make_workload(const nlohmann::json& workload, int nodes, int threads);

}  // namespace verbtwin::protocols
