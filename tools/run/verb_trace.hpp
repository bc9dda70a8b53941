// VerbTrace: a line of CSV for every request that a simulated run posts, as it is posted, warm-up included.
//
// Stands between the programs and the ports of their workers; a run without one has nothing in between. One
// thread; outlives the programs whose ports it wraps. Lines are written as they come (80 B each), beside the
// file until the end: it is as long as the run is.
//
// Columns: time_ns (when the doorbell is rung), node, thread, peer (node; empty for datagrams), queue_pair,
// verb, bytes, to (the offset in the peer's registered memory, a datagram's queue pair), signalled (0 or 1),
// list (which of this worker's lists, of one doorbell each, it is in). No addresses and no wr_ids: the same
// scenario and seed give the same file.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "tools/console/output_file.hpp"
#include "tools/run/observed_port.hpp"
#include "tools/run/trace.hpp"

namespace verbtwin::tools {

class VerbTrace final : public Trace {
 public:
  /// Throws std::system_error where the file cannot be made.
  explicit VerbTrace(std::filesystem::path file);

  WorkerPort& wrap(WorkerPort& port) override;
  std::string end() override;

 private:
  void note(WorkerPort& port, const ObservedPort::Posted& posted, std::uint64_t list);
  void write_lines();

  OutputFile file_;
  std::string lines_;                         // not written yet
  std::optional<std::system_error> failure_;  // of the first write that failed
  std::deque<ObservedPort> ports_;
};

}  // namespace verbtwin::tools
