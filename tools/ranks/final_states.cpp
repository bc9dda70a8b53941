#include "tools/ranks/final_states.hpp"

#include <algorithm>

#include "backend/ibverbs/bytes.hpp"
#include "protocols/checks/accesses.hpp"

namespace verbtwin::tools {

namespace {

using protocols::RecordId;

/// A copy that a rank is asked for; its primary is not told the slot, which it alone can find.
struct Wanted {
  RecordId record;
  std::int32_t rank = 0;
  std::uint64_t slot = 0;
};

}  // namespace

FinalStates::FinalStates(std::span<const protocols::History* const> histories,
                         const protocols::StoreLayout& layout)
    : layout_(layout) {
  const protocols::GroupedAccesses accesses(histories);
  for (const RecordId record : accesses.claimed()) {
    for (int rank = 0; rank < layout.replicas(); ++rank) copies_.push_back({record, rank, 0, 0, 0, {}});
  }
}

template <typename Copies, typename Visit>
void FinalStates::for_each_copy(Copies& copies, Holder holder, int rank, const Visit& visit) const {
  for (auto& copy : copies) {
    const bool asked = (copy.rank == 0) == (holder == Holder::kPrimary);
    const auto partition = static_cast<int>(copy.record.partition());
    if (asked && layout_.backup_node(partition, copy.rank) == rank) visit(copy);
  }
}

std::vector<std::string> FinalStates::questions(Holder holder) const {
  std::vector<std::string> questions;
  for (int rank = 0; rank < layout_.nodes(); ++rank) {
    std::vector<Wanted> wanted;
    for_each_copy(copies_, holder, rank, [&](const Copy& copy) {
      wanted.push_back({copy.record, copy.rank, copy.slot});
    });
    ibverbs::ByteWriter writer;
    writer.put_all(std::span<const Wanted>(wanted));
    questions.push_back(writer.take());
  }
  return questions;
}

void FinalStates::add(Holder holder, int rank, const std::string& answer) {
  ibverbs::ByteReader reader(answer);
  for_each_copy(copies_, holder, rank, [&](Copy& copy) {
    copy.slot = reader.get<std::uint64_t>();
    copy.lock = reader.get<std::uint64_t>();
    copy.version = reader.get<std::uint64_t>();
    copy.value = reader.get_all<std::byte>();
  });
  if (holder == Holder::kBackups) return;
  const auto replicas = static_cast<std::size_t>(layout_.replicas());
  for (std::size_t i = 0; i < copies_.size(); ++i) copies_[i].slot = copies_[i - i % replicas].slot;
}

protocols::FinalRecord FinalStates::find(RecordId record, int rank) const {
  const auto found = std::ranges::lower_bound(copies_, record, {}, &Copy::record);
  if (found == copies_.end() || found->record != record) return {};  // nobody claimed it
  const Copy& copy = found[rank];
  return {copy.lock, copy.version, copy.value};
}

std::string answer_final_states(protocols::NodeStore& store, const std::string& question) {
  ibverbs::ByteReader reader(question);
  ibverbs::ByteWriter writer;
  for (const Wanted& wanted : reader.get_all<Wanted>()) {
    const RecordId record = wanted.record;
    const std::uint64_t slot = wanted.rank == 0 ? store.find_slot(record.table(), record.key()) : wanted.slot;
    const protocols::FinalRecord last = protocols::final_record(store, record, wanted.rank, slot);
    writer.put(slot);
    writer.put(last.lock);
    writer.put(last.version);
    writer.put_all(last.value);
  }
  return writer.take();
}

}  // namespace verbtwin::tools
