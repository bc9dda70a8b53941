#include "protocols/checks/final_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace verbtwin::protocols {
namespace {

/// `accesses`: of one record, writes among them.
void judge(std::span<const RecordAccess> accesses, const char* holder, const RecordCopy& copy,
           Findings& findings) {
  const RecordId record = accesses.front().access.record;
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
  if (!held) {
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
  const std::span<const RecordId> written = accesses.written();
  std::vector<RecordCopy> copies(kBatch * copies_each);
  std::size_t judged = 0;  // of `written`
  Findings primaries, backups;
  accesses.for_each_record([&](std::span<const RecordAccess> record) {
    if (judged == written.size() || written[judged] != record.front().access.record) return;  // only read
    const std::size_t in_batch = judged % kBatch;
    if (in_batch == 0) {
      const auto batch = written.subspan(judged, std::min(kBatch, written.size() - judged));
      read(batch, std::span(copies).first(batch.size() * copies_each));
    }
    ++judged;
    const RecordCopy* copy = &copies[in_batch * copies_each];
    judge(record, "primary", copy[0], primaries);
    for (int rank = 1; rank < replicas; ++rank) judge(record, "backup", copy[rank], backups);
  });
  const std::uint32_t transactions = accesses.numbers().count();
  return {primaries.report("final_state", transactions), backups.report("backups", transactions)};
}

}  // namespace verbtwin::protocols
