#include "protocols/checks/final_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace verbtwin::protocols {
namespace {

/// `accesses`: of this record.
void judge(RecordId record, std::span<const RecordAccess> accesses, const char* holder,
           const RecordCopy& copy, Findings& findings) {
  std::uint64_t last = 0;
  bool held = false;
  for (const RecordAccess& write : accesses) {
    if (write.kind != AccessKind::kWrite || write.access.version < last) continue;
    held = (held && write.access.version == last) || write.access.digest == copy.digest;
    last = write.access.version;
  }
  if (copy.locked) {
    findings.add("left locked", [&] { return to_string(record); });
  }
  if (copy.version != last) {
    findings.add("wrong final version", [&] {
      return fmt::format("{} was committed last, the {} holds version {}", to_string(record, last), holder,
                         copy.version);
    });
    return;
  }
  const bool initial = last == 0;  // nobody has written it: there is nothing to compare with
  if (!held && !initial) {
    findings.add("wrong final value", [&] {
      return fmt::format("the {} holds {} as {:016x}, which nobody committed", holder,
                         to_string(record, last), copy.digest);
    });
  }
}

}  // namespace

FinalStateReports check_final_state(const GroupedAccesses& accesses, int replicas, const ReadCopies& read) {
  constexpr std::size_t kBatch = 32;
  const auto copies_each = static_cast<std::size_t>(replicas);
  const std::span<const RecordId> claimed = accesses.claimed();
  std::vector<RecordCopy> copies(kBatch * copies_each);
  std::size_t judged = 0;  // of `claimed`
  Findings primaries, backups;
  const auto judge_next = [&](std::span<const RecordAccess> accesses_of_it) {
    const std::size_t in_batch = judged % kBatch;
    if (in_batch == 0) {
      const auto batch = claimed.subspan(judged, std::min(kBatch, claimed.size() - judged));
      read(batch, std::span(copies).first(batch.size() * copies_each));
    }
    const RecordId record = claimed[judged++];
    const RecordCopy* copy = &copies[in_batch * copies_each];
    judge(record, accesses_of_it, "primary", copy[0], primaries);
    for (int rank = 1; rank < replicas; ++rank) judge(record, accesses_of_it, "backup", copy[rank], backups);
  };
  accesses.for_each_record([&](std::span<const RecordAccess> of_record) {
    const RecordId record = of_record.front().access.record;
    while (judged < claimed.size() && claimed[judged] < record) judge_next({});
    if (judged < claimed.size() && claimed[judged] == record) judge_next(of_record);  // else only read
  });
  while (judged < claimed.size()) judge_next({});
  const std::uint32_t transactions = accesses.numbers().count();
  return {primaries.report("final_state", transactions), backups.report("backups", transactions)};
}

}  // namespace verbtwin::protocols
