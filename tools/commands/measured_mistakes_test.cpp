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

}  // namespace
}  // namespace verbtwin::tools
