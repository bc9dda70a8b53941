// verbtwin run: what it keeps where something goes wrong beside it, and parts of sweeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tools/tests/command_line_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class RunCommand : public CommandLine {
 protected:
  std::string in(const std::string& name) const { return (directory_ / name).string(); }

  std::string seeds(const std::string& list) const {
    return write("sweep.json", with_sweep(R"([{"run.seed": )" + list + "}]"));
  }

  json point(const std::string& number) const {
    return json::parse(read_text(in("made/points/" + number + "/result.json")));
  }

  /// How a command ends whose standard output is a pipe that nobody reads any more.
  int exit_code_unread(const std::string& arguments) const {
    const std::string pipe = in("pipe"), command = "mkfifo " + pipe + " && exec 3<>" + pipe + " 4>" + pipe +
                                                   " 3<&- && " VERBTWIN_BINARY " " + arguments + " >&4 4>&-";
    return ChildProcess(directory_, {"/bin/sh", "-c", command}).wait();
  }

  /// Of a run that takes more memory than any machine has, stopped soon.
  Ended run_of_too_much(const char* flag) const {
    ChildProcess child = start({"run", scenario_, flag, "--set", "cluster.threads=64", "--set",
                                "cluster.coroutines=16", "--set", "run.measure_us=8e7", "--out", in("made")});
    for (int i = 0; i < 2000 && !fs::exists(in("made")); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    child.signal(SIGINT);
    const int exit_code = child.wait();
    return {exit_code, child.out(), child.err()};
  }
};

TEST_F(RunCommand, NamesInATableAreWholeWhereThereIsRoom) {
  const Ended ended = verbtwin({"run", scenario_, "--sweep", "cluster.nic=connectx-4,connectx-4-roce"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("\nconnectx-4-roce "));
}

/// Else all of an offered load could be done, and less of it committed, without a word.
TEST_F(RunCommand, WhatEndsByItsOwnRulesIsToldBelowATable) {
  const Ended ended =
      verbtwin({"run", scenario_, "--set", R"(workload={"name":"tatp","subscribers_per_node":2000})",
                "--sweep", "run.offered_per_s=1e6,2e6"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("\nown rules    2"));
  EXPECT_THAT(verbtwin({"run", scenario_, "--sweep", "run.seed=1,2"}).out, Not(HasSubstr("own rules")));
}

TEST_F(RunCommand, WhoDoesNotReadLosesNoTrace) {
  for (const char* trace : {"trace.csv", "trace.json"}) {
    EXPECT_EQ(exit_code_unread("run " + scenario_ + " --trace " + in(trace)), 128 + SIGPIPE);
    fs::remove(in("pipe"));
    EXPECT_GT(fs::file_size(in(trace)), 1000U);
  }
  const auto is_stray = [](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with("trace.csv.");
  };
  EXPECT_EQ(std::count_if(fs::directory_iterator(directory_), fs::directory_iterator(), is_stray), 0);
}

TEST_F(RunCommand, AFullDiskBehindStandardOutputLosesNoTrace) {
  const std::string command =
      VERBTWIN_BINARY " run " + scenario_ + " --trace " + in("trace.csv") + " >/dev/full";
  ChildProcess shell(directory_, {"/bin/sh", "-c", command});
  EXPECT_EQ(shell.wait(), 1);
  EXPECT_EQ(shell.err(), "verbtwin: cannot write to standard output: No space left on device\n");
  EXPECT_THAT(read_text(in("trace.csv")), testing::StartsWith("time_ns,"));
}

TEST_F(RunCommand, ATraceThatCannotBeWrittenLosesNoSummary) {
  const Ended ended = verbtwin({"run", scenario_, "--trace", "/dev/full"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.out, HasSubstr("\nthroughput"));
  EXPECT_EQ(ended.err, "verbtwin: cannot write /dev/full: No space left on device\n");
}

TEST_F(RunCommand, AFirstPointThatNobodyReadsIsInTheTable) {
  EXPECT_EQ(exit_code_unread("run " + seeds("[1, 2]") + " --out " + in("made")), 1);
  const std::string csv = read_text(in("made/points.csv"));
  EXPECT_EQ(std::ranges::count(csv, '\n'), 2) << csv;
}

TEST_F(RunCommand, ADamagedPointRunsAgain) {
  const std::string sweep = seeds("[1, 2, 3]"), file = in("made/points/001/result.json");
  ASSERT_EQ(verbtwin({"run", sweep, "--out", in("made")}).exit_code, 0);
  const json whole = point("001");
  for (const char* place :
       {"/latency_us", "/resources/0/utilization_mean", "/checks/0/violations", "/scenario"}) {
    json damaged = whole;
    damaged[json::json_pointer(place)] = "x";
    std::ofstream(file) << damaged;
    const Ended ended = verbtwin({"run", sweep, "--resume", "--out", in("made")});
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_EQ(point("001").at("committed_per_s"), whole.at("committed_per_s"));
    EXPECT_EQ(point("001").at("latency_us"), whole.at("latency_us")) << place;
  }
}

TEST_F(RunCommand, APointJoinsTheSweepThatItIsOf) {
  const std::string sweep = seeds("[1, 2, 3]");
  ASSERT_EQ(verbtwin({"run", sweep, "--out", in("made")}).exit_code, 0);
  fs::remove_all(in("made/points/001"));
  const std::vector<std::string> second = {"run", sweep, "--point", "1", "--out", in("made")};
  EXPECT_THAT(refusal(second),
              HasSubstr("has the results of a sweep (points.csv); allowed: another directory"));
  EXPECT_TRUE(fs::exists(in("made/points.csv")));
  std::vector<std::string> joined = second;
  joined.emplace_back("--resume");
  EXPECT_EQ(verbtwin(joined).exit_code, 0);
  EXPECT_EQ(point("001").at("seed"), 2);
  for (const char* file : {"points.csv", "points.svg", "report.html"})
    EXPECT_FALSE(fs::exists(in(std::string("made/") + file))) << file << " does not know of it";
  ASSERT_EQ(verbtwin({"run", sweep, "--resume", "--out", in("made")}).exit_code, 0);
  EXPECT_EQ(std::ranges::count(read_text(in("made/points.csv")), '\n'), 4);
  EXPECT_EQ(verbtwin(joined).exit_code, 0);
  EXPECT_TRUE(fs::exists(in("made/points.csv"))) << "it was there";

  fs::remove_all(in("made/points/001"));
  EXPECT_THAT(refusal({"run", seeds("[1, 2]"), "--point", "1", "--resume", "--out", in("made")}),
              HasSubstr("has the results of a sweep (points.csv)"))
      << "it has no third point";
  fs::remove_all(in("made/points"));
  EXPECT_THAT(refusal(joined), HasSubstr("has the results of a sweep (points.csv)"))
      << "of nobody knows which";
}

TEST_F(RunCommand, MoreMemoryThanThereIsIsToldOfFirst) {
  EXPECT_THAT(run_of_too_much("--json").err,
              testing::MatchesRegex(
                  "warning: this takes about [0-9]+ GiB of memory, and this machine has [0-9]+ GiB, "
                  "swap included: use fewer machines or threads, or a shorter run.measure_us\n"));
  fs::remove_all(in("made"));
  EXPECT_THAT(run_of_too_much("--quiet").err, IsEmpty());
  EXPECT_THAT(verbtwin({"run", scenario_}).err, IsEmpty());
}

TEST_F(RunCommand, PercentilesGoToAFileOfTheirOwn) {
  ASSERT_EQ(verbtwin({"run", scenario_, "--out", in("made"), "--hdr", in("a.hgrm")}).exit_code, 0);
  EXPECT_EQ(read_text(in("a.hgrm")), read_text(in("made/latency.hgrm")));
  EXPECT_FALSE(fs::exists(in("a-uncorrected.hgrm")));
  EXPECT_FALSE(fs::exists(in("made/latency-uncorrected.hgrm")));

  const Ended offered = verbtwin(
      {"run", scenario_, "--set", "run.offered_per_s=1e6", "--out", in("made"), "--hdr", in("b.hgrm")});
  ASSERT_EQ(offered.exit_code, 0) << offered.err;
  EXPECT_EQ(read_text(in("b.hgrm")), read_text(in("made/latency.hgrm")));
  EXPECT_EQ(read_text(in("b-uncorrected.hgrm")), read_text(in("made/latency-uncorrected.hgrm")));
  EXPECT_NE(read_text(in("b-uncorrected.hgrm")), read_text(in("b.hgrm")));
  EXPECT_THAT(offered.out, HasSubstr("\nuncorrected  p50 "));

  ASSERT_EQ(verbtwin({"run", scenario_, "--out", in("made")}).exit_code, 0);
  EXPECT_FALSE(fs::exists(in("made/latency-uncorrected.hgrm"))) << "of the run before";
}

TEST_F(RunCommand, PercentilesAreOfOneRun) {
  const std::string sweep = seeds("[1, 2]");
  EXPECT_EQ(refusal({"run", sweep, "--hdr", in("a.hgrm")}),
            "--hdr is of one run, and this scenario is a sweep of several; add --point I");
  EXPECT_EQ(refusal({"launch", sweep, "--local", "3", "--hdr", in("a.hgrm")}),
            "--hdr is of one run, and this scenario is a sweep of several; allowed: --out DIR");
  EXPECT_EQ(refusal({"run", scenario_, "--hdr", ""}), "--hdr: is empty; give the name of a file");
  EXPECT_EQ(refusal({"run", scenario_, "--hdr", scenario_}),
            "--hdr DIR/small.json: is the scenario itself; give another file");
  const std::string beside = write("small-uncorrected.json", kSmall);
  EXPECT_EQ(refusal({"run", beside, "--set", "run.offered_per_s=1e6", "--trace", in("t"), "--hdr",
                     in("small.json")}),
            "--hdr DIR/small-uncorrected.json: is the scenario itself; give another file");
  EXPECT_EQ(refusal({"run", scenario_, "--trace", in("t"), "--hdr", in("t")}),
            "--hdr DIR/t: is where the trace goes; give another file");
  EXPECT_EQ(refusal({"run", scenario_, "--hdr", in("no/a.hgrm")}),
            "--hdr DIR/no/a.hgrm: cannot be written: No such file or directory");
  EXPECT_FALSE(fs::exists(in("a.hgrm")));

  ASSERT_EQ(verbtwin({"run", sweep, "--point", "1", "--hdr", in("a.hgrm"), "--out", in("made")}).exit_code,
            0);
  EXPECT_EQ(read_text(in("a.hgrm")), read_text(in("made/points/001/latency.hgrm")));
}

TEST_F(RunCommand, IndicesAreRepetitions) {
  const Ended ended = verbtwin({"run", scenario_, "--sweep", "run.index=0,1,2", "--out", in("made")});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(read_text(in("made/points.csv")), HasSubstr(",run.index,"));
  EXPECT_FALSE(point("000").contains("run_index"));
  EXPECT_EQ(point("002").at("run_index"), 2);
  EXPECT_NE(point("001").at("latency_us"), point("002").at("latency_us"));
  EXPECT_THAT(verbtwin({"run", scenario_, "--set", "run.index=3"}).out, HasSubstr("seed 1, run 3"));
  EXPECT_THAT(verbtwin({"check", scenario_, "--set", "run.index=3"}).out, HasSubstr("seed 1, run 3, check"));
}

}  // namespace
}  // namespace verbtwin::tools
