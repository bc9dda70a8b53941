// verbtwin calibrate, started as a process on a copy of the data with one experiment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backend/temporary_directory.hpp"
#include "calibration/experiment.hpp"
#include "calibration/machine.hpp"
#include "tools/run/catalog.hpp"
#include "tools/tests/calibration_data_for_test.hpp"
#include "tools/tests/child_process_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class Calibrate : public CalibrationData {
 protected:
  ChildProcess start(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "calibrate");
    return verbtwin(std::move(arguments));
  }
  std::vector<std::string> profiles() const {
    std::vector<std::string> texts;
    for (const auto& entry : fs::directory_iterator(directory_ / "profiles"))
      texts.push_back(read_text(entry.path()));
    return texts;
  }
};

TEST_F(Calibrate, EvaluateWritesTheReportAndLeavesTheProfiles) {
  const auto before = profiles();
  ChildProcess run = start({"--published", "--evaluate"});
  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(run.err(), "") << "no progress in a pipe";
  EXPECT_THAT(run.out(), HasSubstr("cx4_many_queue_pairs_read"));
  EXPECT_EQ(profiles(), before);
  const json report = json::parse(read_text(directory_ / "report.json"));
  ASSERT_EQ(report.size(), 8U);
  for (const char* key : {"set", "experiment", "series", "x", "published", "simulated", "error"}) {
    EXPECT_TRUE(report[0].contains(key)) << key;
  }
  EXPECT_GT(report[0].at("simulated").get<double>(), 0);
  EXPECT_THAT(read_text(directory_ / "REPORT.md"), HasSubstr("## connectx-4"));
}

TEST_F(Calibrate, TheSameProfilesGiveTheSameReport) {
  ChildProcess first = start({"--published", "--evaluate", "--jobs", "1"});
  ASSERT_EQ(first.wait(), 0);
  const std::string report = read_text(directory_ / "REPORT.md");
  ChildProcess second = start({"--published", "--evaluate", "--jobs", "4"});
  ASSERT_EQ(second.wait(), 0);
  EXPECT_EQ(read_text(directory_ / "REPORT.md"), report);
}

TEST_F(Calibrate, AnInterruptedFitLeavesEverythingAsItWas) {
  const auto before = profiles();
  ChildProcess run = start({"--published"});
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 128 + SIGINT);
  EXPECT_EQ(run.err(),
            "PARTIAL: ended before all points were simulated; profiles and report are as they were\n");
  EXPECT_EQ(profiles(), before);
  EXPECT_FALSE(fs::exists(directory_ / "REPORT.md"));
}

TEST_F(Calibrate, AnotherGroupsProfileThatCannotBeReadIsRefusedBeforeTheFit) {
  const fs::path file = directory_ / "profiles/connectx-5.json";
  json profile = json::parse(read_text(file));
  profile.at("parameters").erase("serve_request_ns");
  std::ofstream(file) << profile;
  const auto before = profiles();
  ChildProcess run = start({"--published", "--group", "ConnectX-4 cluster"});
  EXPECT_EQ(run.wait(), 2);
  EXPECT_THAT(run.err(), HasSubstr("connectx-5.json"));
  EXPECT_THAT(run.err(), HasSubstr("serve_request_ns"));
  EXPECT_EQ(profiles(), before);
}

TEST_F(Calibrate, WhatIsAskedWronglyIsToldInOneLine) {
  ChildProcess without = start({});
  EXPECT_EQ(without.wait(), 2);
  EXPECT_EQ(without.err(),
            "verbtwin calibrate: what to calibrate with is missing; allowed: --published, --measured FILE\n");
  ChildProcess group = start({"--published", "--group", "ConnectX-4 clusters"});
  EXPECT_EQ(group.wait(), 2);
  EXPECT_THAT(group.err(), HasSubstr("did you mean \"ConnectX-4 cluster\"?"));
  ChildProcess none = start({"--published", "--group", ""});
  EXPECT_EQ(none.wait(), 2);
  EXPECT_THAT(none.err(), HasSubstr("unknown group \"\""));
  ChildProcess both = start({"--published", "--evaluate", "--group", "ConnectX-4 cluster"});
  EXPECT_EQ(both.wait(), 2);
  EXPECT_THAT(both.err(), HasSubstr("--group is of a fit"));
  std::ofstream(directory_ / "published/train/cx4_many_queue_pairs_read.csv", std::ios::app) << "read,512\n";
  ChildProcess data = start({"--published", "--evaluate"});
  EXPECT_EQ(data.wait(), 2);
  EXPECT_THAT(data.err(), HasSubstr("cx4_many_queue_pairs_read.csv:13: 2 fields"));
}

TEST_F(Calibrate, WhereTheReportCannotBeWrittenIsToldBeforeTheFit) {
  fs::create_directory(directory_ / "REPORT.md");
  ChildProcess run = start({"--published"});
  EXPECT_EQ(run.wait(), 2);
  EXPECT_THAT(run.err(), HasSubstr("REPORT.md in it is a directory"));
}

TEST_F(Calibrate, WhatCannotBeSimulatedEndsIt) {
  const fs::path file = directory_ / "experiments/cx4_many_queue_pairs_read.json";
  json experiment = json::parse(read_text(file));
  experiment.at("result").at("pointer") = "/operation_per_s";
  std::ofstream(file) << experiment;
  ChildProcess run = start({"--published", "--evaluate"});
  EXPECT_EQ(run.wait(), 2);
  EXPECT_THAT(run.err(), HasSubstr("no number of a result is at \"/operation_per_s\""));
  EXPECT_FALSE(fs::exists(directory_ / "REPORT.md"));
}

TEST_F(Calibrate, AFitThatChangesAProfileDropsWholeTransactionsFromTheReportAndSaysSo) {
  std::ofstream(directory_ / "REPORT.md") << "former\n\n# End to end\n\n## Something\n";
  ChildProcess evaluated = start({"--published", "--evaluate"});
  ASSERT_EQ(evaluated.wait(), 0) << evaluated.err();
  EXPECT_THAT(read_text(directory_ / "REPORT.md"), HasSubstr("## Something"));
  ChildProcess same = start({"--published", "--group", "not fitted"});
  ASSERT_EQ(same.wait(), 0) << same.err();
  EXPECT_THAT(read_text(directory_ / "REPORT.md"), HasSubstr("## Something"));
  std::ofstream(directory_ / "profiles/ideal.json", std::ios::app) << "\n";
  ChildProcess changed = start({"--published", "--group", "not fitted"});
  ASSERT_EQ(changed.wait(), 0) << changed.err();
  EXPECT_THAT(changed.out(), HasSubstr("left out of the report: whole transactions"));
  EXPECT_THAT(read_text(directory_ / "REPORT.md"), testing::Not(HasSubstr("## Something")));
}

/// Takes twenty to fifty minutes.
TEST(CalibrationData, DISABLED_NightlyAFitGivesTheProfilesThatShip) {
  const TemporaryDirectory copy;
  fs::copy(kData, copy.path() / "calibration", fs::copy_options::recursive);
  setenv("VERBTWIN_DATA_DIR", (copy.path() / "calibration").c_str(), 1);
  ChildProcess run(copy.path(), {VERBTWIN_BINARY, "calibrate", "--published"});
  unsetenv("VERBTWIN_DATA_DIR");
  ASSERT_EQ(run.wait(), 0) << run.err();
  for (const auto& entry : fs::directory_iterator(kData / "profiles")) {
    const fs::path again = copy.path() / "calibration/profiles" / entry.path().filename();
    EXPECT_EQ(read_text(again), read_text(entry.path())) << entry.path().filename();
  }
}

/// What no fit chooses is in the profiles as the machines' files have it.
TEST(CalibrationData, ProfilesHaveTheFixedValuesOfTheirMachines) {
  calibration::Machines machines = calibration::Machines::read(kData / "machines");
  for (const calibration::MachineGroup& group : machines.groups()) {
    for (const std::string& name : group.machines) {
      machines.build(name);
      std::set<std::string> fitted;
      for (const calibration::FitVariable& variable : machines.variables(name)) {
        fitted.insert(variable.parameters.begin(), variable.parameters.end());
      }
      const json shipped = json::parse(read_text(kData / "profiles" / (name + ".json")));
      for (const auto& [parameter, item] : machines.document(name).at("parameters").items()) {
        if (fitted.contains(parameter)) continue;
        EXPECT_EQ(item, shipped.at("parameters").at(parameter)) << name << " " << parameter;
      }
      machines.adopt(name, shipped);
    }
  }
}

TEST(CalibrationData, EveryPublishedRowIsRunOrLeftOutForAReason) {
  std::multiset<std::string> grouped;
  const calibration::Machines machines = calibration::Machines::read(kData / "machines");
  for (const calibration::MachineGroup& group : machines.groups()) {
    grouped.insert(group.machines.begin(), group.machines.end());
  }
  const calibration::ExperimentSet set =
      calibration::load_experiments(kData / "experiments", kData / "published/train", make_catalog());
  EXPECT_GT(set.experiments.size(), 15U);
  for (const calibration::Experiment& experiment : set.experiments) {
    EXPECT_FALSE(experiment.assumptions.empty()) << experiment.name;
    // A group runs the experiments of its NICs: one of no group's would never be run.
    EXPECT_EQ(grouped.count(experiment.nic), 1U) << experiment.name << " on " << experiment.nic;
    EXPECT_EQ(grouped.count(experiment.host), 1U) << experiment.name << " on " << experiment.host;
  }
}

TEST(CalibrationData, NoExperimentOrMachineNamesTheValidationSet) {
  for (const char* folder : {"experiments", "machines"}) {
    for (const auto& entry : fs::directory_iterator(kData / folder)) {
      EXPECT_EQ(read_text(entry.path()).find("validation"), std::string::npos) << entry.path();
    }
  }
}

/// Every window of a scenario, in it or in a rule, `times` as long.
void lengthen(json& value, double times) {
  if (!value.is_structured()) return;
  for (auto& [key, member] : value.items()) {
    if (key.ends_with("warmup_us") || key.ends_with("measure_us")) {
      member = member.get<double>() * times;
    } else {
      lengthen(member, times);
    }
  }
}

/// What the shipped profiles predict for the fitted set, with windows `times` as long as shipped.
std::vector<double> predicted(double times) {
  const TemporaryDirectory made;
  const fs::path directory = made.path();
  for (const char* folder : {"experiments", "published/train", "profiles", "machines"}) {
    fs::create_directories((directory / folder).parent_path());
    fs::copy(kData / folder, directory / folder, fs::copy_options::recursive);
  }
  for (const auto& entry : fs::directory_iterator(directory / "experiments")) {
    json experiment = json::parse(read_text(entry.path()));
    lengthen(experiment, times);
    std::ofstream(entry.path()) << experiment;
  }
  setenv("VERBTWIN_DATA_DIR", directory.c_str(), 1);
  ChildProcess run(directory, {VERBTWIN_BINARY, "calibrate", "--published", "--evaluate"});
  const int code = run.wait();
  unsetenv("VERBTWIN_DATA_DIR");
  EXPECT_EQ(code, 0) << run.err();
  std::vector<double> values;
  for (const json& point : json::parse(read_text(directory / "report.json")))
    values.push_back(point.at("simulated"));
  return values;
}

/// What is fitted while queues still fill is the start of a run. A few move whatever the window: the convoys
/// of a lock form and go.
TEST(Experiments, DISABLED_NightlyWindowsAreLongEnough) {
  const std::vector<double> shipped = predicted(1), longer = predicted(3);
  ASSERT_EQ(shipped.size(), longer.size());
  ASSERT_GT(shipped.size(), 100U);
  std::size_t moved = 0;
  for (std::size_t i = 0; i < shipped.size(); ++i) {
    const double ratio = shipped[i] / longer[i];
    EXPECT_NEAR(ratio, 1, 0.05) << "point " << i;
    moved += std::abs(ratio - 1) > 0.02 ? 1 : 0;
  }
  EXPECT_LE(moved, shipped.size() / 50);
}

}  // namespace
}  // namespace verbtwin::tools
