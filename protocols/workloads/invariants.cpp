#include "protocols/workloads/invariants.hpp"

#include <algorithm>

#include "protocols/store/record.hpp"

namespace verbtwin::protocols {

std::vector<RecordId> written_records(std::span<const History* const> histories) {
  std::vector<RecordId> written;
  for (const History* history : histories) {
    for (std::size_t i = 0; i < history->size(); ++i) {
      for (const Access& write : (*history)[i].writes) written.push_back(write.record);
    }
  }
  std::ranges::sort(written);
  written.erase(std::unique(written.begin(), written.end()), written.end());
  return written;
}

std::uint64_t committed_transactions(std::span<const History* const> histories) {
  std::uint64_t sum = 0;
  for (const History* history : histories) sum += history->size();
  return sum;
}

CheckReport check_sum(const char* name, const char* unit, std::span<const History* const> histories,
                      const std::function<std::int64_t(RecordId)>& change_of) {
  CheckReport report;
  report.name = name;
  report.transactions = committed_transactions(histories);
  std::int64_t expected = 0, change = 0;
  for (const History* history : histories) {
    for (std::size_t i = 0; i < history->size(); ++i) expected += (*history)[i].effect;
  }
  for (const RecordId record : written_records(histories)) change += change_of(record);
  if (change != expected) {
    report.violations = 1;
    report.examples.push_back("records changed by " + std::to_string(change) + " " + unit +
                              ", transactions by " + std::to_string(expected));
  }
  return report;
}

CheckReport check_updates(std::span<const History* const> histories, std::size_t value_b,
                          const std::function<bool(RecordId, std::span<std::byte>)>& value,
                          const std::function<std::uint64_t(RecordId)>& initial) {
  std::vector<std::byte> bytes(value_b);
  return check_sum("updates", "updates", histories, [&](RecordId record) {
    value(record, bytes);
    return static_cast<std::int64_t>(load_word(bytes.data()) - initial(record));
  });
}

}  // namespace verbtwin::protocols
