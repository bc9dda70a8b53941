#include "tools/commands/commands.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

namespace verbtwin::tools {
namespace {

using nlohmann::json;

TEST(ExitCode, SaysHowTheRunEnded) {
  const json clean = json::array({{{"name", "serializable"}, {"transactions", 9}, {"violations", 0}}});
  json violated = clean;
  violated.push_back({{"name", "money"}, {"violations", 1}});
  EXPECT_EQ(exit_code_of({{"partial", false}, {"checks", clean}}, 0), 0);
  EXPECT_EQ(exit_code_of({{"partial", false}, {"checks", json::array()}}, 0), 0);
  EXPECT_EQ(exit_code_of({{"partial", false}, {"checks", violated}}, 0), 3);
  EXPECT_EQ(exit_code_of({{"partial", true}, {"checks", clean}}, SIGINT), 130);
  EXPECT_EQ(exit_code_of({{"partial", true}, {"checks", violated}}, SIGINT), 3);
}

TEST(ExitCode, ASignalAfterTheEndChangesNothing) {
  EXPECT_EQ(exit_code_of({{"partial", false}, {"checks", json::array()}}, SIGTERM), 0);
}

}  // namespace
}  // namespace verbtwin::tools
