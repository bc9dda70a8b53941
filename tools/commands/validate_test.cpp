// verbtwin validate, started as a process on a copy of the data with one experiment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/tests/calibration_data_for_test.hpp"
#include "tools/tests/child_process_for_test.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Validate : public CalibrationData {
 protected:
  void SetUp() override {
    CalibrationData::SetUp();
    ChildProcess evaluate = verbtwin({"calibrate", "--published", "--evaluate"});
    ASSERT_EQ(evaluate.wait(), 0) << evaluate.err();
  }
};

TEST_F(Validate, ThatWhatIsSimulatedIsWhatTheReportSays) {
  const std::string report = read_text(directory_ / "report.json");
  ChildProcess run = verbtwin({"validate"});
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("connectx-4          8"));
  EXPECT_THAT(run.out(), HasSubstr("PASS all 8 simulated values are as in calibration/report.json"));
  EXPECT_EQ(read_text(directory_ / "report.json"), report);
}

TEST_F(Validate, AProfileThatHasChangedIsFound) {
  const auto file = directory_ / "profiles/connectx-4.json";
  json profile = json::parse(read_text(file));
  json& value = profile.at("parameters").at("send_response_ns").at("value");
  value = value.get<double>() * 2;
  std::ofstream(file) << profile;
  ChildProcess run = verbtwin({"validate", "--json"});
  EXPECT_EQ(run.wait(), 3) << run.err();
  const json found = json::parse(run.out());
  EXPECT_EQ(found.at("points").size(), 8U);
  EXPECT_FALSE(found.at("differing").empty());
  for (const json& point : found.at("differing"))
    EXPECT_NE(point.at("simulated"), point.at("reported")) << point;
}

TEST_F(Validate, AReportThatLacksAPointDiffers) {
  json report = json::parse(read_text(directory_ / "report.json"));
  report.erase(3);
  std::ofstream(directory_ / "report.json") << report;
  ChildProcess run = verbtwin({"validate"});
  EXPECT_EQ(run.wait(), 3);
  EXPECT_THAT(run.out(), HasSubstr("FAIL 1 of 8 simulated values"));
  EXPECT_THAT(run.out(), HasSubstr("simulated, none reported"));
}

TEST_F(Validate, WhatIsNoReportIsRefused) {
  for (const char* text : {"[1]", "nonsense"}) {
    std::ofstream(directory_ / "report.json") << text;
    ChildProcess run = verbtwin({"validate"});
    EXPECT_EQ(run.wait(), 2) << text;
    EXPECT_EQ(run.out(), "");
  }
  std::filesystem::remove(directory_ / "report.json");
  ChildProcess run = verbtwin({"validate"});
  EXPECT_EQ(run.wait(), 2);
  EXPECT_THAT(run.err(), HasSubstr("`verbtwin calibrate --published --evaluate` makes it"));
}

}  // namespace
}  // namespace verbtwin::tools
