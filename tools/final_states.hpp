// FinalStates: the records that a real run has written, as their primaries hold them at its end: which ranks
// to ask for what, and what they answered.
//
// Used by rank 0's thread; answer_final_states() by every rank's, when its workers have stopped.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "protocols/system.hpp"

namespace verbtwin::tools {

class FinalStates {
 public:
  /// Every record that one of the histories has written.
  explicit FinalStates(std::span<const protocols::History* const> histories);

  /// What to ask each rank.
  std::vector<std::string> questions(int ranks) const;
  /// What that rank answered. Throws std::runtime_error where it is no answer to its question.
  void add(int rank, const std::string& answer);
  /// A record that a history has written; all ranks have answered.
  protocols::FinalRecord find(protocols::RecordId record) const;

 private:
  struct State {
    protocols::RecordId record;
    std::uint64_t lock = 0, version = 0;
    std::vector<std::byte> value;
  };
  std::vector<State> states_;  // by record
};

std::string answer_final_states(protocols::NodeStore& store, const std::string& question);

}  // namespace verbtwin::tools
