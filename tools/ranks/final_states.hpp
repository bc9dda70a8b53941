// FinalStates: the records that a real run has written or meant to, as their primaries and backups hold them
// at its end: which ranks to ask for what, and what they answered. Only the primary knows where a record is,
// so there are two rounds.
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
  enum class Holder : std::uint8_t { kPrimary, kBackups };

  /// Every record that one of the histories has written or meant to. `layout` outlives this.
  FinalStates(std::span<const protocols::History* const> histories, const protocols::StoreLayout& layout);

  /// What to ask each rank: of the primaries first, then, when those have answered, of the backups.
  std::vector<std::string> questions(Holder holder) const;
  /// What `rank` answered. Throws std::runtime_error where it is no answer to its question.
  void add(Holder holder, int rank, const std::string& answer);
  /// The copy of replica rank `rank` of a record that a history has written or meant to; all ranks have
  /// answered.
  protocols::FinalRecord find(protocols::RecordId record, int rank) const;

 private:
  struct Copy {
    protocols::RecordId record;
    int rank = 0;
    std::uint64_t slot = 0;  // at the primary, and so everywhere
    std::uint64_t lock = 0, version = 0;
    std::vector<std::byte> value;
  };

  /// Calls visit(copy) for each copy that `rank` holds as this, always in the same order.
  template <typename Copies, typename Visit>
  void for_each_copy(Copies& copies, Holder holder, int rank, const Visit& visit) const;

  const protocols::StoreLayout& layout_;
  std::vector<Copy> copies_;  // by record, then rank
};

std::string answer_final_states(protocols::NodeStore& store, const std::string& question);

}  // namespace verbtwin::tools
