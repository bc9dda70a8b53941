// verbtwin reproduce as its users meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tools/tests/child_process_for_test.hpp"
#include "tools/tests/command_line_for_test.hpp"

namespace verbtwin::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

using Reproduce = CommandLine;

TEST_F(Reproduce, ListsWhatHasPublishedValues) {
  const Ended ended = verbtwin({"reproduce"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, StartsWith("figure "));
  EXPECT_THAT(ended.out, HasSubstr("osdi18/fig14-tpcc            32  OSDI 2018, figure 14"));
}

TEST_F(Reproduce, RunsASweepAndPutsItBesideTheFigure) {
  const std::string out = (directory_ / "published").string();
  const std::vector<std::string> arguments = {"reproduce", "key-value",         "--out", out,
                                              "--set",     "run.measure_us=30", "--set", "run.warmup_us=20"};
  const Ended ended = verbtwin(arguments);
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("## Stated in the text: rpc-key-value"));
  EXPECT_THAT(ended.out, HasSubstr("| Jakiro (RF-RPC) | TPDS 2019 RF-RPC |"));
  const std::string place = out + "/rpc/key-value";
  EXPECT_TRUE(std::filesystem::exists(place + "/points.csv"));
  std::filesystem::remove_all(place + "/points/001");
  EXPECT_EQ(verbtwin(arguments).out, ended.out) << "one point from the directory, one anew";
  EXPECT_TRUE(std::filesystem::exists(place + "/points/001/result.json"));
}

TEST_F(Reproduce, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(refusal({"reproduce", "osdi18/fig14-tpc", "--out", "out"}),
              AllOf(HasSubstr("unknown figure \"osdi18/fig14-tpc\"; allowed: osdi18/fig12-smallbank"),
                    HasSubstr("did you mean \"osdi18/fig14-tpcc\"?")));
  EXPECT_THAT(refusal({"reproduce", "ramp/ycsb"}), HasSubstr("--out DIR is missing"));
}

}  // namespace
}  // namespace verbtwin::tools
