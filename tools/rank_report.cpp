#include "tools/rank_report.hpp"

#include "backend/ibverbs/bytes.hpp"

namespace verbtwin::tools {

namespace {

using ibverbs::ByteReader;
using ibverbs::ByteWriter;
using protocols::Access;
using protocols::History;
using protocols::WorkerStatistics;

void pack(ByteWriter& to, const WorkerStatistics& statistics) {
  to.put_all(std::span<const protocols::TransactionSample>(statistics.committed));
  to.put_all(std::span<const std::uint64_t>(statistics.user_aborts));
  to.put(statistics.aborts);
  to.put(statistics.committed_ever);
}

WorkerStatistics unpack_statistics(ByteReader& from) {
  WorkerStatistics statistics;
  statistics.committed = from.get_all<protocols::TransactionSample>();
  statistics.user_aborts = from.get_all<std::uint64_t>();
  statistics.aborts = from.get<decltype(statistics.aborts)>();
  statistics.committed_ever = from.get<std::uint64_t>();
  return statistics;
}

void pack(ByteWriter& to, const History& history) {
  to.put<std::uint64_t>(history.size());
  for (std::size_t i = 0; i < history.size(); ++i) {
    const History::Transaction transaction = history[i];
    to.put_all(transaction.reads);
    to.put_all(transaction.writes);
    to.put(transaction.effect);
  }
}

History unpack_history(ByteReader& from) {
  History history;
  const auto size = from.get<std::uint64_t>();
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::vector<Access> reads = from.get_all<Access>();
    const std::vector<Access> writes = from.get_all<Access>();
    history.commit(reads, writes, from.get<std::int64_t>());
  }
  return history;
}

}  // namespace

std::string pack(const RankReport& report) {
  ByteWriter to;
  to.put(report.partial);
  to.put(report.window_ps);
  to.put(report.verbs);
  to.put_all(std::span<const std::int64_t>(report.core_busy_ps));
  to.put(report.location_cache_hits);
  to.put(report.location_cache_misses);
  to.put<std::uint64_t>(report.statistics.size());
  for (const WorkerStatistics& statistics : report.statistics) pack(to, statistics);
  to.put<std::uint64_t>(report.histories.size());
  for (const History& history : report.histories) pack(to, history);
  to.put_all(std::span<const protocols::LoggedWrite>(report.logged));
  const std::string machine = report.machine.dump();
  to.put_all(std::span<const char>(machine));
  return to.take();
}

RankReport unpack(const std::string& bytes) {
  ByteReader from(bytes);
  RankReport report;
  report.partial = from.get<bool>();
  report.window_ps = from.get<std::int64_t>();
  report.verbs = from.get<VerbCounts>();
  report.core_busy_ps = from.get_all<std::int64_t>();
  report.location_cache_hits = from.get<std::uint64_t>();
  report.location_cache_misses = from.get<std::uint64_t>();
  for (auto n = from.get<std::uint64_t>(); n > 0; --n) report.statistics.push_back(unpack_statistics(from));
  for (auto n = from.get<std::uint64_t>(); n > 0; --n) report.histories.push_back(unpack_history(from));
  report.logged = from.get_all<protocols::LoggedWrite>();
  const std::vector<char> machine = from.get_all<char>();
  report.machine = nlohmann::json::parse(machine);
  return report;
}

}  // namespace verbtwin::tools
