#include "backend/verbs.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace verbtwin {
namespace {

TEST(Verbs, NumbersAreThoseOfLibibverbs) {
  EXPECT_EQ(static_cast<int>(WcStatus::kSuccess), 0);
  EXPECT_EQ(static_cast<int>(WcStatus::kLocLenErr), 1);
  EXPECT_EQ(static_cast<int>(WcStatus::kLocQpOpErr), 2);
  EXPECT_EQ(static_cast<int>(WcStatus::kLocProtErr), 4);
  EXPECT_EQ(static_cast<int>(WcStatus::kWrFlushErr), 5);
  EXPECT_EQ(static_cast<int>(WcStatus::kRemInvReqErr), 9);
  EXPECT_EQ(static_cast<int>(WcStatus::kRemAccessErr), 10);
  EXPECT_EQ(static_cast<int>(WcStatus::kRemOpErr), 11);
  EXPECT_EQ(static_cast<int>(WcStatus::kRetryExcErr), 12);
  EXPECT_EQ(static_cast<int>(WcStatus::kRnrRetryExcErr), 13);
  EXPECT_EQ(kAccessLocalWrite, 1U);
  EXPECT_EQ(kAccessRemoteWrite, 2U);
  EXPECT_EQ(kAccessRemoteRead, 4U);
  EXPECT_EQ(kAccessRemoteAtomic, 8U);
  EXPECT_EQ(kFence, 1);
  EXPECT_EQ(kSignaled, 2);
  EXPECT_EQ(kInline, 8);
  EXPECT_EQ(kGrhBytes, 40U);
}

TEST(Verbs, EverythingHasAWordOfItsOwn) {
  std::set<std::string_view> words;
  for (const int status : {0, 1, 2, 4, 5, 9, 10, 11, 12, 13})
    words.insert(to_string(static_cast<WcStatus>(status)));
  EXPECT_EQ(words.size(), 10U);
  for (std::size_t opcode = 0; opcode < kOpcodes; ++opcode) {
    words.insert(to_string(static_cast<Opcode>(opcode)));
  }
  EXPECT_EQ(words.size(), 17U);
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) words.insert(to_string(type));
  EXPECT_EQ(words.size(), 20U);
  EXPECT_FALSE(words.contains("unknown"));
}

TEST(Verbs, EveryOpcodeSendsOrWritesOrReturnsData) {
  for (std::size_t i = 0; i < kOpcodes; ++i) {
    const auto op = static_cast<Opcode>(i);
    EXPECT_EQ(is_send(op) + is_write(op) + returns_data(op), 1) << to_string(op);
    EXPECT_EQ(has_imm(op), to_string(op).ends_with("_with_imm")) << to_string(op);
    EXPECT_TRUE(returns_data(op) || !is_atomic(op)) << to_string(op);
  }
}

TEST(Verbs, CountsGoUpByRequest) {
  VerbCounts counts;
  counts.add(Opcode::kRdmaRead, 64);
  counts.add(Opcode::kRdmaRead, 8);
  counts.add(Opcode::kAtomicFetchAndAdd, 8);
  const auto of = [&](Opcode op) { return counts.by_opcode[static_cast<std::size_t>(op)]; };
  EXPECT_EQ(of(Opcode::kRdmaRead).count, 2U);
  EXPECT_EQ(of(Opcode::kRdmaRead).bytes, 72U);
  EXPECT_EQ(of(Opcode::kAtomicFetchAndAdd).count, 1U);
  EXPECT_EQ(of(Opcode::kSend).count, 0U);
  EXPECT_EQ(counts.recv.count, 0U);
}

TEST(Verbs, StatusWordsAreThoseOfLibibverbs) {
  EXPECT_EQ(to_string(WcStatus::kSuccess), "success");
  EXPECT_EQ(to_string(WcStatus::kWrFlushErr), "Work Request Flushed Error");
  EXPECT_EQ(to_string(WcStatus::kRetryExcErr), "transport retry counter exceeded");
  EXPECT_EQ(to_string(static_cast<WcStatus>(200)), "unknown");
}

}  // namespace
}  // namespace verbtwin
