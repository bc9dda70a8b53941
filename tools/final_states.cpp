#include "tools/final_states.hpp"

#include <algorithm>

#include "backend/ibverbs/bytes.hpp"

namespace verbtwin::tools {

using protocols::RecordId;

FinalStates::FinalStates(std::span<const protocols::History* const> histories) {
  std::vector<RecordId> written;
  for (const protocols::History* history : histories) {
    for (std::size_t i = 0; i < history->size(); ++i) {
      for (const protocols::Access& write : (*history)[i].writes) written.push_back(write.record);
    }
  }
  std::ranges::sort(written);
  written.erase(std::unique(written.begin(), written.end()), written.end());
  for (const RecordId record : written) states_.push_back({record, 0, 0, {}});
}

std::vector<std::string> FinalStates::questions(int ranks) const {
  std::vector<std::vector<RecordId>> of_rank(static_cast<std::size_t>(ranks));
  for (const State& state : states_) of_rank[state.record.partition()].push_back(state.record);
  std::vector<std::string> questions;
  for (const std::vector<RecordId>& records : of_rank) {
    ibverbs::ByteWriter writer;
    writer.put_all(std::span<const RecordId>(records));
    questions.push_back(writer.take());
  }
  return questions;
}

void FinalStates::add(int rank, const std::string& answer) {
  ibverbs::ByteReader reader(answer);
  for (State& state : states_) {
    if (state.record.partition() != static_cast<std::uint32_t>(rank)) continue;
    state.lock = reader.get<std::uint64_t>();
    state.version = reader.get<std::uint64_t>();
    state.value = reader.get_all<std::byte>();
  }
}

protocols::FinalRecord FinalStates::find(RecordId record) const {
  const auto found = std::ranges::lower_bound(states_, record, {}, &State::record);
  if (found == states_.end() || found->record != record) return {};  // nobody wrote it
  return {found->lock, found->version, found->value};
}

std::string answer_final_states(protocols::NodeStore& store, const std::string& question) {
  ibverbs::ByteReader reader(question);
  ibverbs::ByteWriter writer;
  for (const RecordId record : reader.get_all<RecordId>()) {
    const protocols::FinalRecord last = protocols::final_record(store, store, record, 0);
    writer.put(last.lock);
    writer.put(last.version);
    writer.put_all(last.value);
  }
  return writer.take();
}

}  // namespace verbtwin::tools
