#include "protocols/checks/final_state.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace verbtwin::protocols {
namespace {

void judge(std::span<const RecordAccess> writes, const char* holder, const PrimaryRecord& primary,
           Findings& findings) {
  const auto version_of = [](const RecordAccess& write) { return write.access.version; };
  const RecordId record = writes.front().access.record;
  const std::uint64_t last = version_of(*std::ranges::max_element(writes, {}, version_of));
  if (primary.locked) {
    findings.add("left locked", [&] { return to_string(record); });
  }
  if (primary.version != last) {
    findings.add("wrong final version", [&] {
      return fmt::format("{} was committed last, the {} holds version {}", to_string(record, last), holder,
                         primary.version);
    });
    return;
  }
  const bool held = std::ranges::any_of(writes, [&](const RecordAccess& write) {
    return version_of(write) == last && write.access.digest == primary.digest;
  });
  if (!held) {
    findings.add("wrong final value", [&] {
      return fmt::format("the {} holds {} as {:016x}, which nobody committed", holder,
                         to_string(record, last), primary.digest);
    });
  }
}

}  // namespace

CheckReport check_final_state(Histories histories,
                              const std::function<PrimaryRecord(RecordId)>& read_primary) {
  const TransactionNumbers numbers(histories);
  std::vector<RecordAccess> writes = collect_accesses(histories, numbers, false);
  Findings findings;
  for_each_record(writes, [&](std::span<const RecordAccess> record) {
    judge(record, "primary", read_primary(record.front().access.record), findings);
  });
  return findings.report("final_state", numbers.count());
}

CheckReport check_backups(Histories histories, int replicas,
                          const std::function<PrimaryRecord(RecordId, int rank)>& read_copy) {
  const TransactionNumbers numbers(histories);
  std::vector<RecordAccess> writes = collect_accesses(histories, numbers, false);
  Findings findings;
  for_each_record(writes, [&](std::span<const RecordAccess> record) {
    for (int rank = 1; rank < replicas; ++rank) {
      judge(record, "backup", read_copy(record.front().access.record, rank), findings);
    }
  });
  return findings.report("backups", numbers.count());
}

}  // namespace verbtwin::protocols
