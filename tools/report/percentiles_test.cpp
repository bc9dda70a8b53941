#include "tools/report/percentiles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>

#include "backend/temporary_directory.hpp"
#include "tools/tests/child_process_for_test.hpp"
#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

constexpr const char* kSmallBank = R"({
  "cluster": {"nodes": 3, "threads": 2, "coroutines": 4, "nics_per_node": 2},
  "protocol": {"name": "drtmh"}, "workload": {"name": "smallbank", "accounts_per_thread": 20},
  "run": {"warmup_us": 20, "measure_us": 200}
})";

/// Well-formed, and of these latencies.
void expect_percentiles(const std::string& text, const json& result, const json& latency_us) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "       Value   Percentile   TotalCount 1/(1-Percentile)");
  double value = 0, share = -1, last_value = 0, last_share = -1;
  std::uint64_t count = 0, rows = 0;
  while (std::getline(lines, line) && !line.starts_with("#")) {
    if (line.empty()) continue;
    std::istringstream in(line);
    ASSERT_TRUE(in >> value >> share >> count) << line;
    EXPECT_GE(value, last_value);
    EXPECT_GT(share, last_share);
    if (share == 0.5) {
      EXPECT_NEAR(value, latency_us.at("p50").get<double>(), 0.001);
    }
    last_value = value;
    last_share = share;
    ++rows;
  }
  EXPECT_GT(rows, 20U);
  EXPECT_EQ(share, 1);
  EXPECT_EQ(count, result.at("committed"));
  EXPECT_NEAR(value, latency_us.at("max").get<double>(), 0.001);
  EXPECT_THAT(line, testing::StartsWith("#[Mean    = "));
}

TEST(Percentiles, AreHdrHistograms) {
  const json result = run(kSmallBank);
  EXPECT_FALSE(has_uncorrected(result));
  expect_percentiles(percentile_text(result), result, result.at("latency_us"));
}

TEST(Percentiles, OfAnOfferedLoadAreTwo) {
  const json result = run(kSmallBank, {"run.offered_per_s=3e6"});
  EXPECT_TRUE(has_uncorrected(result));
  const std::string uncorrected = percentile_text(result, "latency_uncorrected");
  expect_percentiles(percentile_text(result), result, result.at("latency_us"));
  expect_percentiles(uncorrected, result, result.at("latency_uncorrected_us"));
  EXPECT_NE(uncorrected, percentile_text(result));

  const TemporaryDirectory directory;
  const auto file = directory.path() / "b.hgrm", beside = directory.path() / "b-uncorrected.hgrm";
  EXPECT_EQ(uncorrected_beside(file), beside);
  {
    PercentileFiles files(file, true, OutputFile::Replaces::kPlain);
    EXPECT_FALSE(std::filesystem::exists(file)) << "not before they are whole";
    files.write(result);
  }
  EXPECT_EQ(read_text(file), percentile_text(result));
  EXPECT_EQ(read_text(beside), uncorrected);
  EXPECT_EQ(uncorrected_beside("plain"), "plain-uncorrected");
}

}  // namespace
}  // namespace verbtwin::tools
