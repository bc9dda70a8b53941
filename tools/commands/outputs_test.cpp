// Where the verbtwin program's commands write, and what they leave alone.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

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
using testing::StartsWith;

class CommandOutputs : public CommandLine {
 protected:
  std::string in(const std::string& name) const { return (directory_ / name).string(); }

  /// The refusal of a command that would write over `input`, which stays as it is.
  std::string refused(const std::string& input, std::vector<std::string> arguments) const {
    const std::string before = read_text(input);
    const std::string line = refusal(std::move(arguments));
    EXPECT_EQ(read_text(input), before);
    return line;
  }

  void wait_for(const std::string& file) const {
    for (int i = 0; i < 2000 && !fs::exists(file); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  const std::string profile_ = VERBTWIN_SOURCE_DIR "/calibration/profiles/connectx-4.json";
  const std::string host_ = VERBTWIN_SOURCE_DIR "/calibration/profiles/xeon-e5-2650v4.json";
};

TEST_F(CommandOutputs, ARunDoesNotOverwriteWhatItReads) {
  const std::string itself = write("result.json", kSmall);
  EXPECT_EQ(refused(itself, {"run", itself, "--out", in("")}),
            "--out DIR/: result.json in it is the scenario itself; give another directory");
  const std::string sweep = write("points.csv", with_sweep(R"([{"run.seed": [1, 2]}])"));
  EXPECT_THAT(refused(sweep, {"run", sweep, "--out", in("")}), HasSubstr("points.csv in it is the scenario"));
  fs::create_directories(in("points/001"));
  const std::string nic = in("points/001/result.json");
  fs::copy_file(profile_, nic);
  const std::string other = write("sweep.json", read_text(sweep));
  fs::remove(sweep);
  EXPECT_THAT(refused(nic, {"run", other, "--out", in(""), "--set", "cluster.nic=" + nic}),
              HasSubstr("points/001/result.json in it is a profile of the scenario"));
  EXPECT_EQ(refused(scenario_, {"run", scenario_, "--trace", scenario_}),
            "--trace DIR/small.json: is the scenario itself; give another file");
  EXPECT_THAT(refusal({"run", scenario_, "--out", in("new"), "--trace", in("new/latency.hgrm")}),
              HasSubstr("is where the result goes; give another file"));
}

TEST_F(CommandOutputs, OtherCommandsDoNotEither) {
  const std::string scenario = write("plan.csv", kSmall);
  EXPECT_THAT(refused(scenario, {"plan", scenario, "--goal", "committed_per_s>=1", "--out", in("")}),
              HasSubstr("plan.csv in it is the scenario itself"));
  fs::create_directory(in("profiles"));
  const std::string nic = in("profiles/nic-receive-engines.json");
  fs::copy_file(profile_, nic);
  EXPECT_THAT(refused(nic, {"explain", scenario_, "--out", in(""), "--set", "cluster.nic=" + nic}),
              HasSubstr("profiles/nic-receive-engines.json in it is a profile of the scenario"))
      << "the base would be twice as good as well";

  const std::string perftest = in("measurement.json");
  fs::copy_file(VERBTWIN_SOURCE_DIR "/calibration/testdata/perftest/bw_write_64.txt", perftest);
  const std::vector<std::string> import = {"measure", "--perftest", perftest, "--link-gbps", "100", "--out"};
  const auto import_to = [&](const std::string& out) {
    std::vector<std::string> arguments = import;
    arguments.push_back(out);
    return arguments;
  };
  EXPECT_THAT(refused(perftest, import_to(in(""))),
              HasSubstr("measurement.json in it is an output of perftest"));
  ASSERT_EQ(verbtwin(import_to(in("m"))).exit_code, 0);
  const auto calibrate = [&](const std::string& measured, const std::string& nic_file) {
    return std::vector<std::string>{"calibrate", "--measured", measured, "--nic", nic_file,
                                    "--host",    host_,        "--out",  in("m")};
  };
  fs::copy_file(profile_, in("m/nic.json"));
  EXPECT_THAT(refused(in("m/nic.json"), calibrate(in("m/measurement.json"), in("m/nic.json"))),
              HasSubstr("nic.json in it is what --nic names"));
  fs::remove(in("m/nic.json"));
  fs::rename(in("m/measurement.json"), in("m/report.json"));
  EXPECT_THAT(refused(in("m/report.json"), calibrate(in("m/report.json"), profile_)),
              HasSubstr("report.json in it is what --measured names"));
}

TEST_F(CommandOutputs, EveryNameIsLookedAtBeforeTheRun) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"run.seed": [1, 2]}])"));
  const auto refused_for = [&](const std::string& name, std::vector<std::string> arguments) {
    fs::create_directories(in("made/" + name));
    arguments.insert(arguments.end(), {"--out", in("made")});
    EXPECT_EQ(refusal(std::move(arguments)),
              "--out DIR/made: " + name +
                  " in it is a directory; give a directory that can be created "
                  "or written");
    fs::remove_all(in("made"));
  };
  for (const char* name : {"result.json", "report.html", "latency.hgrm"})
    refused_for(name, {"run", scenario_});
  for (const char* name : {"points.csv", "points.svg", "report.html", "points/001/latency.hgrm"})
    refused_for(name, {"run", sweep});
  for (const char* name : {"plan.json", "plan.csv"})
    refused_for(name, {"plan", scenario_, "--goal", "committed_per_s>=1"});
  for (const char* name : {"explanation.json", "profiles/host-cores.json"})
    refused_for(name, {"explain", scenario_});
  fs::create_directory(in("made"));
  std::ofstream(in("made/profiles")) << "mine";
  EXPECT_THAT(refusal({"explain", scenario_, "--out", in("made")}), HasSubstr("profiles in it is a file"));
}

TEST_F(CommandOutputs, TwoCommandsDoNotWriteToOneDirectoryAtOnce) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"run.seed": [1, 2]}])"));
  ChildProcess first =
      start({"run", sweep, "--set", "run.measure_us=1e6", "--jobs", "2", "--out", in("made")});
  wait_for(in("made"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(
      refusal({"run", scenario_, "--out", in("made")}),
      "--out DIR/made: another verbtwin is writing there; give another directory, or wait until it ends");
  first.signal(SIGINT);
  EXPECT_EQ(first.wait(), 130) << first.err();
  EXPECT_EQ(verbtwin({"run", sweep, "--out", in("made")}).exit_code, 0);
}

std::string point_file(const std::string& directory, int point) {
  return directory + "/points/00" + std::to_string(point) + "/result.json";
}

TEST_F(CommandOutputs, ASweepGoesOnWhereItEnded) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"run.seed": [1, 2, 3, 4, 5, 6]}])"));
  const std::string csv = in("made/points.csv");
  ASSERT_EQ(verbtwin({"run", sweep, "--point", "1", "--out", in("made")}).exit_code, 0);
  EXPECT_TRUE(fs::exists(point_file(in("made"), 1)));
  EXPECT_FALSE(fs::exists(csv));
  ASSERT_EQ(verbtwin({"run", sweep, "--resume", "--out", in("made")}).exit_code, 0);

  // A time that no run has tells what is kept from what ran again.
  constexpr double kMark_s = 54321;
  const auto change = [&](int point, const std::string& pointer, const json& value) {
    json result = json::parse(read_text(point_file(in("made"), point)));
    result["simulator"]["wall_s"] = kMark_s;
    if (!pointer.empty()) result[json::json_pointer(pointer)] = value;
    std::ofstream(point_file(in("made"), point)) << result;
  };
  change(0, "", {});
  change(1, "/partial", true);
  change(2, "/simulator/files/cluster.host", "0");
  change(3, "/simulator/program", "0.0.0");
  change(4, "/simulator/files/cluster.nic", "0");
  std::ofstream(point_file(in("made"), 5)) << "{";
  EXPECT_EQ(verbtwin({"run", sweep, "--point", "0", "--resume", "--out", in("made")}).exit_code, 0);
  ASSERT_EQ(verbtwin({"run", sweep, "--resume", "--jobs", "2", "--out", in("made")}).exit_code, 0);
  for (int point = 0; point < 6; ++point) {
    const json result = json::parse(read_text(point_file(in("made"), point)));
    EXPECT_EQ(result.at("simulator").at("wall_s") == kMark_s, point == 0) << point;
    EXPECT_EQ(result.at("scenario").at("run").at("seed"), point + 1);
    EXPECT_EQ(result.at("partial"), false);
  }
  EXPECT_EQ(std::ranges::count(read_text(csv), '\n'), 7);

  ASSERT_EQ(verbtwin({"run", sweep, "--out", in("made")}).exit_code, 0);  // all of them anew
  EXPECT_NE(json::parse(read_text(point_file(in("made"), 0))).at("simulator").at("wall_s"), kMark_s);
}

TEST_F(CommandOutputs, AFinishedSweepTakesNoPointOfAnother) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"run.seed": [1, 2]}])"));
  ASSERT_EQ(verbtwin({"run", sweep, "--out", in("made")}).exit_code, 0);
  const std::string other = write("other.json", with_sweep(R"([{"run.seed": [1, 3]}])"));
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--resume"}}) {
    std::vector<std::string> arguments = {"run", other, "--point", "1", "--out", in("made")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(refusal(arguments),
              "--out DIR/made: has the results of a sweep (points.csv); allowed: another directory");
  }
  EXPECT_EQ(verbtwin({"run", sweep, "--point", "1", "--resume", "--out", in("made")}).exit_code, 0);

  fs::remove(in("made/points/001/report.html"));
  EXPECT_EQ(verbtwin({"run", sweep, "--resume", "--out", in("made")}).exit_code, 0);
  EXPECT_TRUE(fs::exists(in("made/points/001/report.html")));
}

/// They may have taken hours.
TEST_F(CommandOutputs, WhatGoesOnLeavesPointsOfAnotherSweep) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"run.seed": [1, 2]}])"));
  ASSERT_EQ(verbtwin({"run", sweep, "--out", in("made")}).exit_code, 0);
  const std::string before = read_text(in("made/points.csv"));
  const std::string why = "; allowed: another directory, or no --resume, which replaces what is there";
  EXPECT_EQ(refusal({"run", sweep, "--set", "run.measure_us=5", "--resume", "--out", in("made")}),
            "--resume: DIR/made/points/000 is a point of another scenario: /run/measure_us differs" + why);
  EXPECT_THAT(refusal({"run", sweep, "--set", R"(protocol={"name":"farm"})", "--set", "cluster.threads=1",
                       "--set", "cluster.coroutines=1", "--resume", "--out", in("made")}),
              testing::MatchesRegex("--resume: DIR/made/points/000 is a point of another scenario: "
                                    "/protocol/name, /cluster/coroutines, /cluster/nics_per_node and [0-9]+ "
                                    "more fields differ; allowed: .*"));
  EXPECT_EQ(refusal({"run", sweep, "--set", "run.seed=1", "--resume", "--out", in("made")}),
            "--resume: DIR/made/points/001 is a point of another sweep: this one has 1 point" + why);
  EXPECT_EQ(read_text(in("made/points.csv")), before);
  EXPECT_TRUE(fs::exists(in("made/points/001/result.json")));
}

/// Points of a former program are run again, one by one.
TEST_F(CommandOutputs, WhatIsStoppedLeavesPointsThatItHasNotRunAgain) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"run.seed": [1, 2, 3]}])"));
  ASSERT_EQ(verbtwin({"run", sweep, "--out", in("made")}).exit_code, 0);
  for (int point = 0; point < 3; ++point) {
    json result = json::parse(read_text(point_file(in("made"), point)));
    result["simulator"]["program"] = "0.0.0";
    result["scenario"]["run"]["measure_us"] = 1e6;
    std::ofstream(point_file(in("made"), point)) << result;
  }
  const auto rows = [&] { return std::ranges::count(read_text(in("made/points.csv")), '\n') - 1; };
  for (int wait_ms = 500; rows() == 3 && wait_ms < 60'000; wait_ms *= 4) {  // who is still set up has no row
    ChildProcess again =
        start({"run", sweep, "--set", "run.measure_us=1e6", "--resume", "--out", in("made")});
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    again.signal(SIGINT);
    EXPECT_EQ(again.wait(), 130) << again.err();
  }
  EXPECT_EQ(rows(), 1) << "cut short";
  EXPECT_TRUE(fs::exists(point_file(in("made"), 2)));
}

/// Nothing has been measured then that could take its place.
TEST_F(CommandOutputs, ASweepThatCannotBeginLeavesAnEarlierOne) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"run.seed": [1, 2]}])"));
  ASSERT_EQ(verbtwin({"run", sweep, "--out", in("made")}).exit_code, 0);
  const std::string before = read_text(in("made/points.csv"));
  const Ended failed =
      verbtwin({"run", sweep, "--set", "cluster.network.background_gbps=1000", "--out", in("made")});
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_EQ(failed.out, "");
  EXPECT_THAT(failed.err,
              HasSubstr("/cluster/network/background_gbps: out of range: 1000; allowed: less than "));
  EXPECT_EQ(verbtwin({"check", sweep, "--set", "cluster.network.background_gbps=1000"}).exit_code, 2);
  EXPECT_EQ(read_text(in("made/points.csv")), before);
  EXPECT_TRUE(fs::exists(in("made/points/001/result.json")));
}

TEST_F(CommandOutputs, PartsAreOfASimulatedSweepInADirectory) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"run.seed": [1, 2]}])"));
  EXPECT_EQ(refusal({"run", sweep, "--resume"}),
            "--resume: is about the results in a directory; add --out DIR");
  EXPECT_EQ(refusal({"run", sweep, "--point", "2"}), "--point 2: allowed: 0 to 1");
  EXPECT_EQ(refusal({"run", scenario_, "--point", "0", "--out", in("made")}),
            "--point: is about a sweep's points, and this scenario is one run");
  EXPECT_EQ(refusal({"run", sweep, "--resume", "--backend", "ibverbs", "--out", in("made")}),
            "--resume: is of simulated sweeps; allowed: --backend sim, or a real sweep as a whole");
}

TEST_F(CommandOutputs, ARunAndASweepDoNotMix) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"run.seed": [1, 2]}])"));
  EXPECT_EQ(verbtwin({"run", scenario_, "--out", in("of_run")}).exit_code, 0);
  EXPECT_EQ(verbtwin({"run", sweep, "--out", in("of_sweep")}).exit_code, 0);
  const std::string before = read_text(in("of_sweep/report.html"));
  EXPECT_EQ(refusal({"run", scenario_, "--out", in("of_sweep")}),
            "--out DIR/of_sweep: has the results of a sweep (points.csv); allowed: another directory");
  EXPECT_EQ(read_text(in("of_sweep/report.html")), before);
  EXPECT_EQ(refusal({"run", sweep, "--out", in("of_run")}),
            "--out DIR/of_run: has the results of a run (result.json); allowed: another directory");
  EXPECT_FALSE(fs::exists(in("of_run/points")));
}

TEST_F(CommandOutputs, ATraceIsThereInWholeOrNotAtAll) {
  const std::string trace = write("trace.csv", "former");
  ChildProcess killed =
      start({"run", scenario_, "--set", "run.measure_us=1e6", "--out", in("made"), "--trace", trace});
  wait_for(in("made"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  killed.signal(SIGKILL);
  killed.wait();
  EXPECT_EQ(read_text(trace), "former");
}

TEST_F(CommandOutputs, ATraceGoesToWhoReadsAPipe) {
  const std::string pipe = in("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal({"run", scenario_, "--trace", pipe}),
            "--trace DIR/pipe: cannot be written: nobody reads this pipe; begin its reader first");
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ChildProcess run = start({"run", scenario_, "--quiet", "--trace", pipe});
  std::string text;
  char some[4096];
  for (int i = 0; i < 5000; ++i) {
    const ssize_t count = read(reader, some, sizeof some);
    if (count > 0) text.append(some, static_cast<std::size_t>(count));
    if (count == 0 && !text.empty()) break;
    if (count <= 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  close(reader);
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(text, testing::AllOf(StartsWith("time_ns,"), HasSubstr(",read,"), testing::EndsWith("\n")));
}

TEST_F(CommandOutputs, WhatIsNotPublishedIsRefusedWithItsPath) {
  const std::string sweep = write("sweep.json", with_sweep(R"([{"run.seed": [1, 2]}])"));
  ASSERT_EQ(verbtwin({"run", sweep, "--out", in("made")}).exit_code, 0);
  EXPECT_THAT(
      refusal({"compare-published", in("made")}),
      testing::AllOf(StartsWith("DIR/made/points.csv: no point of it has been published: "),
                     testing::EndsWith("allowed: the sweeps of scenarios/osdi18, fasst, rpc and ramp")));
}

TEST_F(CommandOutputs, AFileThatMayNotGrowIsAFailureInALine) {
  const std::string command =
      "ulimit -f 8; " VERBTWIN_BINARY " run " + scenario_ + " --quiet --out " + in("made");
  ChildProcess shell(directory_, {"/bin/sh", "-c", command});
  EXPECT_EQ(shell.wait(), 1);
  EXPECT_EQ(shell.err(), "verbtwin: cannot write " + in("made/result.json") + ": File too large\n");
  EXPECT_FALSE(fs::exists(in("made")));
}

TEST_F(CommandOutputs, PathsArePrintedOnOneLineWithoutControls) {
  const Ended ended = verbtwin({"run", scenario_, "--out", in("red\x1b[31m")});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("wrote " + in(R"(red\u001b[31m/result.json)") + " and report.html"));
}

}  // namespace
}  // namespace verbtwin::tools
