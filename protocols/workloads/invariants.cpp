#include "protocols/workloads/invariants.hpp"

#include "protocols/store/record.hpp"

namespace verbtwin::protocols {

CheckReport check_sum(const char* name, const char* unit, const GroupedAccesses& accesses,
                      const std::function<std::int64_t(RecordId)>& change_of) {
  CheckReport report;
  report.name = name;
  report.transactions = accesses.numbers().count();
  std::int64_t expected = 0, change = 0;
  for (const History* history : accesses.histories()) {
    for (std::size_t i = 0; i < history->size(); ++i) expected += (*history)[i].effect;
  }
  for (const RecordId record : accesses.written()) change += change_of(record);
  if (change != expected) {
    report.violations = 1;
    report.examples.push_back("records changed by " + std::to_string(change) + " " + unit +
                              ", transactions by " + std::to_string(expected));
  }
  return report;
}

void mark_lines(std::span<std::byte> value, std::uint64_t count) {
  constexpr std::size_t kLine_b = 64, kWord_b = sizeof(std::uint64_t);
  for (std::size_t at = kLine_b; at + kWord_b <= value.size(); at += kLine_b)
    store_word(value.data() + at, count);
  if (value.size() >= 2 * kWord_b) store_word(value.data() + (value.size() / kWord_b - 1) * kWord_b, count);
}

CheckReport check_updates(const GroupedAccesses& accesses, std::size_t value_b,
                          const std::function<bool(RecordId, std::span<std::byte>)>& value,
                          const std::function<std::uint64_t(RecordId)>& initial) {
  std::vector<std::byte> bytes(value_b);
  return check_sum("updates", "updates", accesses, [&](RecordId record) {
    value(record, bytes);
    return static_cast<std::int64_t>(load_word(bytes.data()) - initial(record));
  });
}

}  // namespace verbtwin::protocols
