// What is easily given wrongly to `calibrate --measured`, and what it says of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/tests/measured_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using calibration::PrimitivePoint;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class MeasuredMistakes : public CalibrateMeasured {
 protected:
  ChildProcess evaluate(const std::string& measured) const {
    return start({"calibrate", "--measured", measured, "--nic", "connectx-4", "--host", "xeon-e5-2650v4",
                  "--out", in("fitted"), "--evaluate"});
  }
};

TEST_F(MeasuredMistakes, OfADirectoryItsMeasurementIsTaken) {
  fs::create_directory(in("m"));
  ChildProcess empty = evaluate(in("m"));
  EXPECT_EQ(empty.wait(), 2);
  EXPECT_THAT(empty.err(), HasSubstr(in("m/measurement.json") + ": no such file"));
  write(in("m/measurement.json"), measurement_of(json::array({measured({"read", "rc"}, 4e5, 2.5)})));
  ChildProcess run = evaluate(in("m"));
  EXPECT_EQ(run.wait(), 0) << run.err();
}

TEST_F(MeasuredMistakes, ValuesInAnotherUnitAreWarnedOf) {
  const auto said = [&](const PrimitivePoint& point, const char* key, const json& value, bool fit = false) {
    json given = calibration::to_json(point);
    given[key] = value;
    write(in("measurement.json"), measurement_of(json::array({given})));
    ChildProcess run = fit ? calibrate() : evaluate(in("measurement.json"));
    EXPECT_EQ(run.wait(), 0) << run.err();
    EXPECT_EQ(read_text(in("fitted/REPORT.md")).find("WARNING: ") == std::string::npos,
              run.out().find("WARNING: ") == std::string::npos);
    return run.out();
  };
  const PrimitivePoint reads{"read", "rc", 8, 16}, alone{"read", "rc"};
  EXPECT_THAT(
      said(reads, "operations_per_s", 6.9),
      testing::ContainsRegex("WARNING: [^\n]*measurement.json:[0-9]+:[0-9]+: point 1: 6.9 operations/s, "
                             "where the profiles named give 6.3[0-9]*e\\+06: is it in M operations/s\\?\n"));
  EXPECT_THAT(said(reads, "operations_per_s", 6900), HasSubstr("is it in k operations/s?"));
  EXPECT_THAT(said(alone, "latency_us", {{"p50", 2100}}), HasSubstr("point 1: 2100 us, where"));
  EXPECT_THAT(said(alone, "latency_us", {{"p50", 2100}}, true), HasSubstr("is it in ns?"));
  EXPECT_THAT(said({"read", "rc", 1 << 20}, "latency_us", {{"p50", 84}}), Not(HasSubstr("WARNING")));
  EXPECT_THAT(said(reads, "operations_per_s", 6.9e4), Not(HasSubstr("WARNING"))) << "a slow device";
}

TEST_F(MeasuredMistakes, OfManyValuesInAnotherUnitOneIsSaid) {
  json points = json::array();
  for (const int payload_b : {8, 64, 1024}) {
    points.push_back(calibration::to_json({"read", "rc", payload_b, 16}));
    points.back()["operations_per_s"] = 6.2;
  }
  write(in("measurement.json"), measurement_of(points));
  ChildProcess run = evaluate(in("measurement.json"));
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("? 2 more are as far off.\n"));
}

}  // namespace
}  // namespace verbtwin::tools
