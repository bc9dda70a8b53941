// The final states of a run, asked of three nodes' stores as rank 0 asks them of the ranks.
#include "tools/ranks/final_states.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "protocols/fake_backend_for_test.hpp"

namespace verbtwin::tools {
namespace {

using protocols::RecordId;
using Holder = FinalStates::Holder;

constexpr int kNodes = 3;

class FinalStatesTest : public testing::Test {
 protected:
  FinalStatesTest() {
    for (int node = 0; node < kNodes; ++node)
      stores_.push_back(std::make_unique<protocols::NodeStore>(layout_, node, 1, cluster_.memory(node),
                                                               protocols::LogWrites::kAreApplied,
                                                               protocols::KeepLogged::kNothing));
  }

  protocols::NodeStore& store(int node) { return *stores_[static_cast<std::size_t>(node)]; }

  /// At the primary and in the history; at the backup another time.
  std::uint64_t write(RecordId record, std::uint64_t version, std::uint64_t value) {
    protocols::NodeStore& primary = store(static_cast<int>(record.partition()));
    const std::uint64_t slot = primary.find_slot(record.table(), record.key());
    protocols::install(layout_.table(0).record, primary.primary_record(0, slot), version,
                       std::as_bytes(std::span(&value, 1)));
    const std::array<protocols::Access, 1> writes{{{record, version, 0}}};
    history_.commit({}, writes, 0);
    return slot;
  }
  void write_backup(RecordId record, std::uint64_t version, std::uint64_t value) {
    store((static_cast<int>(record.partition()) + 1) % kNodes)
        .update_backup(record, version, std::as_bytes(std::span(&value, 1)));
  }

  FinalStates asked() {
    const std::array<const protocols::History*, 1> histories{&history_};
    FinalStates states(histories, layout_);
    for (const Holder holder : {Holder::kPrimary, Holder::kBackups}) {
      const std::vector<std::string> questions = states.questions(holder);
      for (int node = 0; node < kNodes; ++node) {
        states.add(holder, node, answer_final_states(store(node), questions[static_cast<std::size_t>(node)]));
      }
    }
    return states;
  }

  protocols::StoreLayout layout_{{{"words", 8, 64}}, {2048, 512, 0}, kNodes, 1, 2, 64};
  protocols::FakeCluster cluster_{ClusterShape{.nodes = kNodes}, layout_.total_bytes()};
  std::vector<std::unique_ptr<protocols::NodeStore>> stores_;
  protocols::History history_;
};

TEST_F(FinalStatesTest, PrimariesAndBackupsSayWhatTheyHold) {
  const RecordId first = RecordId::make(0, 2, 7), second = RecordId::make(0, 0, 9);
  write(first, 3, 70);
  write(second, 5, 90);
  write_backup(first, 3, 70);
  write_backup(second, 4, 80);  // its last write never came
  const FinalStates states = asked();
  EXPECT_EQ(states.find(first, 0).version, 3U);
  EXPECT_EQ(protocols::load_word(states.find(first, 0).value.data()), 70U);
  EXPECT_EQ(states.find(first, 1).version, 3U);
  EXPECT_EQ(protocols::load_word(states.find(first, 1).value.data()), 70U);
  EXPECT_EQ(states.find(second, 0).version, 5U);
  EXPECT_EQ(states.find(second, 1).version, 4U);
  EXPECT_EQ(protocols::load_word(states.find(second, 1).value.data()), 80U);
}

TEST_F(FinalStatesTest, ALockThatWasLeftIsSeen) {
  const RecordId record = RecordId::make(0, 1, 3);
  const std::uint64_t slot = write(record, 1, 10);
  ASSERT_TRUE(protocols::try_lock(store(1).primary_record(0, slot), 5));
  EXPECT_EQ(asked().find(record, 0).lock, 5U);
}

TEST_F(FinalStatesTest, AnAnswerThatIsTooShortIsRefused) {
  write(RecordId::make(0, 1, 3), 1, 10);
  const std::array<const protocols::History*, 1> histories{&history_};
  FinalStates states(histories, layout_);
  EXPECT_THROW(states.add(Holder::kPrimary, 1, "short"), std::runtime_error);
}

}  // namespace
}  // namespace verbtwin::tools
