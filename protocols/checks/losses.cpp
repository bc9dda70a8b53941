#include "protocols/checks/losses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace verbtwin::protocols {

namespace {

/// The nodes whose logs hold a record in this version or a newer one; `waiting` is sorted by records.
std::vector<std::uint32_t> logged_by(std::span<const LoggedWrite> waiting, RecordId record,
                                     std::uint64_t version) {
  const auto of = [](const LoggedWrite& logged) { return logged.write.record; };
  std::vector<std::uint32_t> nodes;
  auto logged = std::ranges::lower_bound(waiting, record, {}, of);
  for (; logged != waiting.end() && logged->write.record == record; ++logged) {
    if (logged->write.version >= version) nodes.push_back(logged->backup);
  }
  std::ranges::sort(nodes);
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

}  // namespace

void find_losses(std::span<const RecordId> records, std::span<const std::uint64_t> versions,
                 std::vector<LoggedWrite> waiting, int nodes, MadeUpBy made_up_by, Findings& losses) {
  if (records.empty()) return;
  const std::size_t replicas = versions.size() / records.size();
  std::ranges::sort(waiting, {}, [](const LoggedWrite& one) { return one.write.record; });
  for (std::size_t i = 0; i < records.size(); ++i) {
    const RecordId record = records[i];
    const auto copies = versions.subspan(i * replicas, replicas);
    const std::uint64_t newest = std::ranges::max(copies);
    if (std::ranges::min(copies) == newest) continue;
    const std::vector<std::uint32_t> logs = logged_by(waiting, record, newest);
    for (std::size_t rank = 1; rank < replicas; ++rank) {
      const auto keeper =
          static_cast<std::uint32_t>((record.partition() + rank) % static_cast<std::size_t>(nodes));
      const bool made_up = made_up_by == MadeUpBy::kItsLog ? std::ranges::binary_search(logs, keeper)
                                                           : logs.size() + 1 >= replicas;
      if (copies[rank] >= newest || made_up) continue;
      losses.add("seen before it was logged", [&] {
        return fmt::format("{}, of which node {} has version {} and no log more", to_string(record, newest),
                           keeper, copies[rank]);
      });
    }
  }
}

}  // namespace verbtwin::protocols
