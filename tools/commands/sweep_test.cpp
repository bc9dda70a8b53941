// verbtwin sweep as its users meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/tests/child_process_for_test.hpp"
#include "tools/tests/command_line_for_test.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class SweepCommand : public CommandLine {
 protected:
  int bash(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "/bin/bash");
    ChildProcess child(directory_, std::move(arguments));
    const int code = child.wait();
    EXPECT_EQ(child.err(), "");
    return code;
  }
  const std::string sweep_ = "cluster.coroutines=1,2,3";
  std::string out_ = (directory_ / "it's out").string();
};

TEST_F(SweepCommand, ListsThePoints) {
  const Ended ended = verbtwin({"sweep", scenario_, "--sweep", sweep_});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(
      ended.out,
      "   0  cluster.coroutines=1\n   1  cluster.coroutines=2\n   2  cluster.coroutines=3\n\n3 points\n");
}

TEST_F(SweepCommand, SaysWhichPointsADirectoryHas) {
  ASSERT_EQ(verbtwin({"run", scenario_, "--sweep", sweep_, "--point", "1", "--out", out_}).exit_code, 0);
  const Ended ended = verbtwin({"sweep", scenario_, "--sweep", sweep_, "--out", out_});
  EXPECT_THAT(ended.out,
              StartsWith("   0  to run  cluster.coroutines=1\n   1  done    cluster.coroutines=2\n"));
  EXPECT_THAT(ended.out, HasSubstr("3 points: 1 done, 2 to run"));
  const json listed =
      json::parse(verbtwin({"sweep", scenario_, "--sweep", sweep_, "--out", out_, "--json"}).out);
  EXPECT_EQ(listed.at("format"), "verbtwin-sweep-points");
  EXPECT_EQ(listed.at("points").at(1),
            json({{"point", 1}, {"settings", {{"cluster.coroutines", 2}}}, {"done", true}}));
  // Of another scenario's points none is there.
  const Ended other = verbtwin({"sweep", scenario_, "--sweep", sweep_, "--out", out_, "--set", "run.seed=2"});
  EXPECT_THAT(other.out, HasSubstr("3 points: 0 done, 3 to run"));
}

/// A point that ran with other flags of SimGrid's is another run: neither done, nor what the script goes on
/// with.
TEST_F(SweepCommand, FlagsOfSimGridsTellPointsApart) {
  const std::string cfg = "network/latency-factor:10 network/weight-S:100";
  const std::vector<std::string> plain = {"sweep", scenario_, "--sweep", sweep_, "--out", out_};
  std::vector<std::string> with_cfg = plain;
  with_cfg.insert(with_cfg.end(), {"--cfg", cfg});
  std::vector<std::string> run = with_cfg;
  run.front() = "run";
  run.insert(run.end(), {"--point", "1"});
  ASSERT_EQ(verbtwin(run).exit_code, 0);
  EXPECT_THAT(verbtwin(plain).out, HasSubstr("3 points: 0 done, 3 to run"));
  const std::string listed = verbtwin(with_cfg).out;
  EXPECT_THAT(listed, HasSubstr("3 points: 1 done, 2 to run"));
  EXPECT_THAT(listed, HasSubstr(" --cfg '" + cfg + "' --out "));
  EXPECT_THAT(refusal({"sweep", scenario_, "--sweep", sweep_, "--cfg=nosuch:1"}),
              StartsWith("--cfg=nosuch:1: unknown key"));
}

TEST_F(SweepCommand, TasksOfTheScriptRunAllPointsAndGatherThem) {
  const std::string workload = "workload={\"name\": \"smallbank\",\n\"accounts_per_thread\": 500}";
  const std::vector<std::string> arguments = {"sweep", scenario_, "--sweep", sweep_,
                                              "--set", workload,  "--out",   out_};
  std::vector<std::string> with_tasks = arguments;
  with_tasks.insert(with_tasks.end(), {"--slurm", "2"});
  const Ended script = verbtwin(with_tasks);
  ASSERT_EQ(script.exit_code, 0) << script.err;
  EXPECT_THAT(script.out, HasSubstr("#SBATCH --array=0-1\n"));
  const std::string file = write("tasks.sh", script.out);
  for (const char* task : {"0", "1"}) {
    setenv("SLURM_ARRAY_TASK_ID", task, 1);
    EXPECT_EQ(bash({file}), 0);
  }
  unsetenv("SLURM_ARRAY_TASK_ID");
  EXPECT_THAT(verbtwin(arguments).out, HasSubstr("3 points: 3 done, 0 to run"));
  EXPECT_FALSE(std::filesystem::exists(out_ + "/points.csv"));
  EXPECT_EQ(bash({file, "gather"}), 0);
  const std::string table = read_text(out_ + "/points.csv");
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4);
}

TEST_F(SweepCommand, RefusesWhatIsNoSweepOfItsOwn) {
  EXPECT_THAT(refusal({"sweep", scenario_}),
              HasSubstr("is one run; allowed: a scenario with \"sweep\", or --sweep"));
  EXPECT_THAT(refusal({"sweep", scenario_, "--sweep", sweep_, "--slurm", "2"}), HasSubstr("add --out DIR"));
  EXPECT_THAT(refusal({"sweep", scenario_, "--sweep", sweep_, "--slurm", "0", "--out", out_}),
              HasSubstr("--slurm 0: allowed: an integer, 1 to 1000"));
}

}  // namespace
}  // namespace verbtwin::tools
