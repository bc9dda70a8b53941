// Timeline: a simulated run as trace events in JSON, for https://ui.perfetto.dev and chrome://tracing: every
// transaction with its attempts and their phases, every request from its doorbell until its completion was
// taken, and an arrow from the core's work of posting it to that of taking the completion. Of an unsignalled
// one that is the completion of the next signalled one, if that goes by the same doorbell; of one behind
// which there is none, nobody hears, and it is an instant.
//
// One thread; outlives the programs whose ports it wraps. Begins with the measurement window and has all that
// ends from then on, whatever is still under way at the window's end too, up to a number of events; what ends
// later is counted and left out. An event is kept when both its ends are known, so that the file is complete
// wherever a run is stopped. It is kept in memory (some 110 B an event) and written in one go at the end.
//
// What the events rely on:
// * Coroutines of a worker overlap, and so do requests of a coroutine. What stands on a thread's track must
//   nest, so these are asynchronous events ("b", "e") of their own ids. The ids are local to the process:
//   global ones would take them out of their node's tracks.
// * Perfetto puts events of one id on one lane, in a track with the name of the first of them: an attempt and
//   its phases have their transaction's id and stand below it.
// * Events of one time keep their order in the file: of what begins at once the outer one comes first, of
//   what ends at once the inner one.
// * An arrow ("s", "f") starts and ends at the slice ("X") of its thread that is open at its time, and is not
//   drawn where there is none. So posting a list and looking at a completion queue, which a core does one
//   after the other, are slices, and arrows begin and end in the middle of them. "bp" says that the end is
//   bound to the slice around it, not to the next one.
// * Processes and threads are numbered from 1: 0 is the idle one. Their names say which node and worker.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/console/output_file.hpp"
#include "tools/run/observed_port.hpp"
#include "tools/run/trace.hpp"

namespace verbtwin::tools {

class Timeline final : public Trace, private protocols::AttemptObserver {
 public:
  static constexpr std::uint64_t kEventsMax = 1'000'000;  // what a browser still opens

  /// `name`: what was run. Throws std::system_error where the file cannot be made.
  Timeline(std::filesystem::path file, std::string name, std::uint64_t events_max = kEventsMax);

  /// A timeline is what a file of this name gets.
  static bool is_for(const std::filesystem::path& file) { return file.extension() == ".json"; }

  WorkerPort& wrap(WorkerPort& port) override;
  protocols::AttemptObserver* attempts() override { return this; }
  void measures_from(std::int64_t at_ps) override { window_begin_ps_ = at_ps; }
  void measured_until(std::int64_t at_ps) override { window_end_ps_ = at_ps; }
  std::string end() override;

 private:
  /// What a core does from begin_ps to end_ps; written with the first arrow that needs it.
  struct Slice {
    const char* name;
    std::int64_t begin_ps = 0, end_ps = 0;
    std::size_t requests = 0;  // posted, or completions taken
    bool written = false;      // or left out
  };
  /// A request whose completion, or that of a signalled one behind it in its list, has not been taken.
  struct Request {
    std::uint64_t wr_id = 0;
    Opcode opcode{};
    bool signalled = true;
    std::uint32_t bytes = 0;
    int peer = -1;
    std::shared_ptr<Slice> posting;
  };
  struct Attempt {
    std::int64_t begin_ps = 0, end_ps = 0;
    std::vector<protocols::EndedPhase> phases;
    std::string_view failed_in, outcome;
  };
  struct Worker {
    int node = 0, thread = 0;
    std::map<std::uint32_t, std::deque<Request>> requests;  // by queue pair, in order
    std::map<int, std::vector<Attempt>> attempts;           // by coroutine: of transactions under way
  };

  void ended(const protocols::EndedAttempt& attempt) override;
  void posted(Worker& worker, const ObservedPort::Posted& posted, std::int64_t now_ps);
  void taken(Worker& worker, std::span<const WorkCompletion> completions, std::int64_t begin_ps,
             std::int64_t now_ps);
  void write_transaction(const Worker& worker, const protocols::EndedAttempt& last,
                         const std::vector<Attempt>& attempts);
  void write_request(const Worker& worker, const Request& request, Slice& taking);
  void write_slice(const Worker& worker, const Slice& slice);

  /// Whether there is room for so many events that end now; else they are counted as left out.
  bool has_room(std::uint64_t events, std::int64_t now_ps);
  /// An event up to its time; what else it has is to follow, and end_event().
  void begin_event(std::string_view phase, const char* category, std::string_view name, const Worker& worker,
                   std::int64_t at_ps);
  /// `arguments`: of a JSON object, or none.
  void end_event(std::string_view arguments = {});
  /// One end of what has an id and may overlap.
  void event(std::string_view phase, const char* category, std::uint64_t id, std::string_view name,
             const Worker& worker, std::int64_t at_ps, std::string_view arguments = {});
  void instant(std::string_view name, const Worker& worker, std::int64_t at_ps, std::string_view arguments);
  /// One end of an arrow: "s" or "f".
  void arrow(std::string_view phase, std::uint64_t id, std::string_view name, const Worker& worker,
             const Slice& slice);
  void mark(std::string_view name, std::int64_t at_ps);
  void next();  // puts what stands between events

  OutputFile file_;
  std::string name_;
  std::uint64_t events_max_;
  std::uint64_t events_ = 0, left_out_ = 0;
  std::int64_t window_begin_ps_ = 0, window_end_ps_ = 0;
  std::int64_t cut_ps_ = -1;  // when the first one was left out; -1: none was
  std::uint64_t last_id_ = 0;
  std::string text_;
  std::deque<ObservedPort> ports_;
  std::map<std::pair<int, int>, Worker> workers_;  // by node and thread
  std::map<std::uint32_t, int> node_of_;           // by queue pair that takes datagrams
};

}  // namespace verbtwin::tools
