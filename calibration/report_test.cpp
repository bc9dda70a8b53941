// The report of a measurement; what it has in common with that of published values is in fit_test.cpp.
#include "calibration/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbtwin::calibration {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct MeasuredAndSimulated {
  const char* payload_b;
  double measured, simulated;
  const char* limit;
};

class MeasuredReport : public testing::Test {
 protected:
  ReportInput input_of(const std::vector<MeasuredAndSimulated>& rates) {
    Experiment e;
    e.name = "read_rate";
    e.nic = "nic";
    e.host = "host";
    e.unit = "M operations/s";
    e.result_pointer = "/operations_per_s";
    std::vector<Prediction> predictions;
    for (const MeasuredAndSimulated& rate : rates) {
      Point& p = e.points.emplace_back();
      p.series = "window 16";
      p.x = rate.payload_b;
      p.published = rate.measured;
      predictions.push_back({rate.simulated, rate.limit, 1, rate.limit, 0});
    }
    set_.experiments = {e};
    const auto parameter = [](double value, const char* unit) {
      return json{{"value", value}, {"unit", unit}, {"source", "t"}, {"uncertainty", 0}};
    };
    const json nic = {
        {"name", "nic"},
        {"description", "a <b>*bold*</b> CPU | [x](y)"},
        {"parameters",
         {{"dma_reads_outstanding", parameter(41, "count")}, {"pcie_gbps", parameter(126, "Gb/s")}}}};
    ReportInput input{&set_, {predictions}, {nic}, {}, Reference::kMeasured};
    return input;
  }

  ExperimentSet set_;
};

TEST_F(MeasuredReport, SaysUnitsAndDigitsThatMeanSomething) {
  const std::string text =
      report_markdown(input_of({{"8", 3.1234567890123, 4, "core"}, {"64", 3, 3, "core"}}));
  EXPECT_THAT(text, HasSubstr("| series | payload B | measured | simulated |"));
  EXPECT_THAT(text, HasSubstr("| window 16 | 8 | 3.123 | 4 |"));
  EXPECT_THAT(text, HasSubstr("* read_rate, window 16, 8 B: +28 %."));
  EXPECT_THAT(text, HasSubstr("median 14.0 %, root mean square 19.8 %, worst 28.1 %."));
}

TEST_F(MeasuredReport, TextOfTheMeasurementIsNoMarkdown) {
  EXPECT_THAT(report_markdown(input_of({{"8", 3, 3, "core"}})),
              HasSubstr("a \\<b\\>\\*bold\\*\\</b\\> CPU \\| \\[x\\](y)"));
}

TEST_F(MeasuredReport, WhatWasNotFittedIsNotSaidToBeUnexplained) {
  ReportInput input = input_of({{"8", 3, 4, "core"}});
  EXPECT_THAT(report_summary(input), HasSubstr("1 of 1 points are more than 20 % off: the models do not"));
  input.fitted = false;
  EXPECT_THAT(report_summary(input), HasSubstr("off: these profiles were not fitted to it\n"));
  EXPECT_THAT(report_markdown(input), Not(HasSubstr("explain")));
}

TEST_F(MeasuredReport, ALimitThatBadPointsShareIsNamed) {
  const std::string tags = report_summary(input_of({{"8", 30, 45, "dma_reads"},
                                                    {"64", 30, 44, "dma_reads"},
                                                    {"128", 30, 42, "dma_reads"},
                                                    {"9", 3, 4, "core"}}));
  EXPECT_THAT(tags, HasSubstr("3 of them are limited by the NICs' DMA reads in flight in the simulation: "
                              "dma_reads_outstanding may be less on your machine than 41"));
  const std::string slot = report_summary(
      input_of({{"1024", 7, 12, "link"}, {"2048", 3.5, 6, "link"}, {"4096", 1.8, 3, "nic_recv"}}));
  EXPECT_THAT(slot,
              HasSubstr("3 of them were measured at one and the same rate of bytes: pcie_gbps may be less"));
  ReportInput evaluated =
      input_of({{"8", 30, 45, "dma_reads"}, {"64", 30, 44, "dma_reads"}, {"9", 3, 5, "dma_reads"}});
  evaluated.fitted = false;
  EXPECT_THAT(report_summary(evaluated),
              HasSubstr("as in this profile; these profiles were not fitted to them"));
  const std::string none =
      report_summary(input_of({{"8", 7, 12, "link"}, {"64", 3.5, 6, "core"}, {"4096", 1.8, 3, "nic_recv"}}));
  EXPECT_THAT(none, HasSubstr("the models do not explain them"));
}

}  // namespace
}  // namespace verbtwin::calibration
