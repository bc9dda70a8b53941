#include "tools/ranks/rank_job.hpp"

#include "backend/ibverbs/bytes.hpp"
#include "scenarios/text.hpp"
#include "tools/ranks/final_states.hpp"
#include "tools/run/job.hpp"

namespace verbtwin::tools {

namespace {

using ibverbs::ByteReader;
using ibverbs::ByteWriter;
using protocols::Access;
using protocols::History;
using protocols::WorkerStatistics;

void pack(ByteWriter& to, const WorkerStatistics& statistics) {
  to.put_all(std::span<const protocols::TransactionSample>(statistics.committed));
  to.put_all(std::span<const std::int64_t>(statistics.waited_ps));
  to.put_all(std::span<const std::uint64_t>(statistics.user_aborts));
  to.put(statistics.aborts);
  to.put(statistics.committed_ever);
  to.put(statistics.offered);
  to.put(statistics.locations_cached);
  to.put(statistics.locations_missed);
}

WorkerStatistics unpack_statistics(ByteReader& from) {
  WorkerStatistics statistics;
  statistics.committed = from.get_all<protocols::TransactionSample>();
  statistics.waited_ps = from.get_all<std::int64_t>();
  statistics.user_aborts = from.get_all<std::uint64_t>();
  statistics.aborts = from.get<decltype(statistics.aborts)>();
  statistics.committed_ever = from.get<std::uint64_t>();
  statistics.offered = from.get<std::uint64_t>();
  statistics.locations_cached = from.get<std::uint64_t>();
  statistics.locations_missed = from.get<std::uint64_t>();
  return statistics;
}

void pack(ByteWriter& to, const History& history) {
  to.put<std::uint64_t>(history.size());
  for (std::size_t i = 0; i < history.size(); ++i) {
    const History::Transaction transaction = history[i];
    to.put_all(transaction.reads);
    to.put_all(transaction.writes);
    to.put(transaction.effect);
    to.put(transaction.when);
  }
  to.put_all(history.aborted());
}

History unpack_history(ByteReader& from) {
  History history;
  for (auto n = from.get<std::uint64_t>(); n > 0; --n) {
    const std::vector<Access> reads = from.get_all<Access>();
    const std::vector<Access> writes = from.get_all<Access>();
    const auto effect = from.get<std::int64_t>();
    history.commit(reads, writes, effect, from.get<protocols::Interval>());
  }
  for (const protocols::RecordId record : from.get_all<protocols::RecordId>()) history.abort(record);
  return history;
}

void pack(ByteWriter& to, const protocols::RampStatistics& statistics) {
  pack(to, static_cast<const WorkerStatistics&>(statistics));
  to.put(statistics.reads_by_rounds);
  to.put(statistics.in_place);
  to.put(statistics.in_place_accepted);
}

protocols::RampStatistics unpack_ramp_statistics(ByteReader& from) {
  protocols::RampStatistics statistics;
  static_cast<WorkerStatistics&>(statistics) = unpack_statistics(from);
  statistics.reads_by_rounds = from.get<decltype(statistics.reads_by_rounds)>();
  statistics.in_place = from.get<std::uint64_t>();
  statistics.in_place_accepted = from.get<std::uint64_t>();
  return statistics;
}

void pack(ByteWriter& to, const protocols::RampHistory& history) {
  to.put<std::uint64_t>(history.size());
  for (std::size_t i = 0; i < history.size(); ++i) {
    const protocols::RampHistory::Transaction transaction = history[i];
    to.put(transaction.timestamp);
    to.put(transaction.committed);
    to.put(transaction.when);
    to.put_all(transaction.reads);
    to.put_all(transaction.writes);
  }
}

protocols::RampHistory unpack_ramp_history(ByteReader& from) {
  protocols::RampHistory history;
  for (auto n = from.get<std::uint64_t>(); n > 0; --n) {
    const auto timestamp = from.get<std::uint64_t>();
    const bool committed = from.get<bool>();
    const auto when = from.get<protocols::Interval>();
    const auto reads = from.get_all<protocols::RampRead>();
    history.add(timestamp, committed, reads, from.get_all<protocols::RampWrite>(), when);
  }
  return history;
}

class Transactions final : public RankJob {
 public:
  Transactions(const scenarios::Scenario& scenario, const RunControl& control)
      : system_(system_parameters(scenario, control), scenario.workload) {}

  std::size_t node_memory_bytes() const override { return system_.node_memory_bytes(); }

  protocols::Program& make_node(int node, NodeMemory& memory,
                                const std::vector<WorkerPort*>& ports) override {
    node_ = std::make_unique<protocols::NodeProgram>(system_, node, memory, ports);
    return *node_;
  }

  std::string report() override {
    ByteWriter to;
    for (int thread = 0; thread < node_->threads(); ++thread) {
      pack(to, node_->statistics(thread));
      pack(to, node_->history(thread));
    }
    node_->store().drain_logs();
    const std::vector<protocols::LoggedWrite> logged = node_->store().logged().all();
    to.put_all(std::span<const protocols::LoggedWrite>(logged));
    return to.take();
  }

  int questions() const override { return system_.parameters().check ? 2 : 0; }
  std::string answer(const std::string& question) override {
    return answer_final_states(node_->store(), question);
  }

  nlohmann::json result(const RunInput& run, const std::vector<std::string>& reports,
                        const Ask& ask) override {
    TransactionsInput input{run, {}, &occ_names(), {}, {}};
    input.transaction_names = system_.workload().transaction_names();
    const std::size_t workers = reports.size() * static_cast<std::size_t>(node_->threads());
    std::vector<WorkerStatistics> statistics;
    std::vector<History> histories;
    std::vector<protocols::LoggedWrite> logged;
    statistics.reserve(workers);
    histories.reserve(workers);
    std::vector<const History*> history_of;
    for (const std::string& report : reports) {
      ByteReader from(report);
      for (int thread = 0; thread < node_->threads(); ++thread) {
        input.workers.push_back(&statistics.emplace_back(unpack_statistics(from)));
        history_of.push_back(&histories.emplace_back(unpack_history(from)));
      }
      const auto some = from.get_all<protocols::LoggedWrite>();
      logged.insert(logged.end(), some.begin(), some.end());
    }
    if (ask && questions() > 0) {
      FinalStates states(history_of, system_.layout());
      for (const auto holder : {FinalStates::Holder::kPrimary, FinalStates::Holder::kBackups}) {
        const auto answers = ask(states.questions(holder));
        for (std::size_t rank = 0; rank < reports.size(); ++rank)
          states.add(holder, static_cast<int>(rank), answers[rank]);
      }
      const std::span<const protocols::LoggedWrite> all_logged(logged);
      input.checks = protocols::run_checks(
          system_, history_of, std::span(&all_logged, 1),
          [&](std::span<const protocols::RecordId> records, std::span<protocols::FinalRecord> copies) {
            const std::size_t each = copies.size() / records.size();
            for (std::size_t i = 0; i < copies.size(); ++i)
              copies[i] = states.find(records[i / each], static_cast<int>(i % each));
          });
    }
    return make_result(input);
  }

 private:
  protocols::System system_;
  std::unique_ptr<protocols::NodeProgram> node_;
};

class RampTransactions final : public RankJob {
 public:
  RampTransactions(const scenarios::Scenario& scenario, const RunControl& control)
      : system_(ramp_parameters(scenario, control), scenario.workload) {}

  std::size_t node_memory_bytes() const override { return system_.node_memory_bytes(); }

  protocols::Program& make_node(int node, NodeMemory& memory,
                                const std::vector<WorkerPort*>& ports) override {
    node_ = std::make_unique<protocols::RampNode>(system_, node, memory, ports);
    return *node_;
  }

  std::string report() override {
    ByteWriter to;
    to.put(node_->versions_collected_early());
    std::vector<protocols::LastVersion> held;
    std::vector<std::uint64_t> locked;
    if (system_.parameters().check) {
      held = node_->last_versions();
      locked = node_->locked_keys();
    }
    to.put_all(std::span<const protocols::LastVersion>(held));
    to.put_all(std::span<const std::uint64_t>(locked));
    for (int thread = 0; thread < node_->threads(); ++thread) {
      pack(to, node_->statistics(thread));
      const auto histories = node_->histories(thread);
      to.put<std::uint64_t>(histories.size());
      for (const protocols::RampHistory* history : histories) pack(to, *history);
    }
    return to.take();
  }

  nlohmann::json result(const RunInput& run, const std::vector<std::string>& reports,
                        const Ask& ask) override {
    RampInput input{{run, {}, &ramp_names(), {}, {}}, {}, 0};
    input.transaction_names = system_.workload().transaction_names();
    std::vector<std::unique_ptr<protocols::RampStatistics>> statistics;
    std::vector<std::unique_ptr<protocols::RampHistory>> histories;
    std::vector<const protocols::RampHistory*> history_of;
    std::vector<protocols::LastVersion> last_versions;
    std::vector<std::uint64_t> locked_keys;
    for (const std::string& report : reports) {
      ByteReader from(report);
      input.collected_early += from.get<std::uint64_t>();
      const auto held = from.get_all<protocols::LastVersion>();
      last_versions.insert(last_versions.end(), held.begin(), held.end());
      const auto locked = from.get_all<std::uint64_t>();
      locked_keys.insert(locked_keys.end(), locked.begin(), locked.end());
      for (int thread = 0; thread < node_->threads(); ++thread) {
        statistics.push_back(std::make_unique<protocols::RampStatistics>(unpack_ramp_statistics(from)));
        input.clients.push_back(statistics.back().get());
        for (auto n = from.get<std::uint64_t>(); n > 0; --n) {
          histories.push_back(std::make_unique<protocols::RampHistory>(unpack_ramp_history(from)));
          history_of.push_back(histories.back().get());
        }
      }
    }
    // Of one rank alone, what it read was written elsewhere.
    if (ask && system_.parameters().check)
      input.checks = protocols::run_checks(system_, history_of, std::move(last_versions), locked_keys);
    return make_result(std::move(input));
  }

 private:
  protocols::RampSystem system_;
  std::unique_ptr<protocols::RampNode> node_;
};

class MicroBenchmark final : public RankJob {
 public:
  explicit MicroBenchmark(const scenarios::Scenario& scenario)
      : benchmark_(protocols::make_benchmark(scenario.workload, benchmark_parameters(scenario))) {}

  std::size_t node_memory_bytes() const override { return benchmark_->node_memory_bytes(); }

  protocols::Program& make_node(int, NodeMemory&, const std::vector<WorkerPort*>& ports) override {
    node_ = std::make_unique<protocols::BenchmarkNode>(*benchmark_, ports);
    return *node_;
  }

  std::string report() override {
    ByteWriter to;
    for (int thread = 0; thread < node_->threads(); ++thread) {
      const protocols::OperationStatistics& s = node_->statistics(thread);
      to.put_all(std::span<const std::int64_t>(s.latency_ps));
      to.put_all(std::span<const std::int64_t>(s.waited_ps));
      to.put(s.operations);
      to.put(s.operations_ever);
      to.put(s.begun);
      to.put(s.failed);
      to.put(s.offered);
    }
    return to.take();
  }

  nlohmann::json result(const RunInput& run, const std::vector<std::string>& reports, const Ask&) override {
    OperationsInput input{run, {}, benchmark_->machines()};
    std::vector<protocols::OperationStatistics> statistics;
    statistics.reserve(reports.size() * static_cast<std::size_t>(node_->threads()));
    for (const std::string& report : reports) {
      ByteReader from(report);
      for (int thread = 0; thread < node_->threads(); ++thread) {
        protocols::OperationStatistics& s = statistics.emplace_back();
        s.latency_ps = from.get_all<std::int64_t>();
        s.waited_ps = from.get_all<std::int64_t>();
        s.operations = from.get<std::uint64_t>();
        s.operations_ever = from.get<std::uint64_t>();
        s.begun = from.get<std::uint64_t>();
        s.failed = from.get<std::uint64_t>();
        s.offered = from.get<std::uint64_t>();
        input.workers.push_back(&s);
      }
    }
    return make_result(input);
  }

 private:
  std::unique_ptr<protocols::Benchmark> benchmark_;
  std::unique_ptr<protocols::BenchmarkNode> node_;
};

}  // namespace

void mark_failed(nlohmann::json& result, const std::string& why) {
  constexpr std::size_t kWhyMax = 1000;  // characters
  result["partial"] = true;
  result["failure"] = scenarios::one_line(why, kWhyMax);  // of a peer's words: they may be cut anywhere
  result.erase("warning");
  if (result.contains("machines")) {
    result["operations_per_s"] =
        result.at("operations_per_s").get<double>() * result.at("machines").get<double>();
    result["machines"] = 1;
  }
}

std::unique_ptr<RankJob> make_rank_job(const scenarios::Scenario& scenario, const RunControl& control) {
  if (scenario.protocol.is_null()) return std::make_unique<MicroBenchmark>(scenario);
  if (is_ramp(scenario)) return std::make_unique<RampTransactions>(scenario, control);
  return std::make_unique<Transactions>(scenario, control);
}

}  // namespace verbtwin::tools
