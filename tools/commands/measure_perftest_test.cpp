// `verbtwin measure --perftest`, and that `calibrate --measured` takes what it writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/tests/command_line_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const fs::path kOutputs = fs::path(VERBTWIN_SOURCE_DIR) / "calibration/testdata/perftest";

/// An output of a fast device.
std::string printed(const std::string& test, const std::string& conditions, const std::string& table) {
  const std::string line(87, '-');
  return line + "\n                    " + test + "\n Dual-port       : OFF\t\tDevice         : mlx5_0\n" +
         " Number of qps   : 1\t\tTransport type : IB\n Connection type : RC\t\tUsing SRQ      : OFF\n" +
         conditions + " Mtu             : 4096[B]\n Link type       : IB\n Max inline data : 0[B]\n" + line +
         "\n" + table + line + "\n";
}

class MeasurePerftest : public CommandLine {
 protected:
  std::string in(const std::string& name) const { return (directory_ / name).string(); }
  std::vector<std::string> import(std::vector<std::string> more) const {
    std::vector<std::string> all = {"measure", "--out", in("m"), "--perftest"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(MeasurePerftest, CalibrateTakesWhatItWrites) {
  const std::string latencies =
      write("read_lat.txt",
            printed("RDMA_Read Latency Test", " TX depth        : 1\n",
                    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
                    "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
                    " 8       1000          1.70           5.12         1.75               1.76             "
                    "0.05            1.90                    5.12\n"
                    " 4096    1000          2.60           6.12         2.70               2.71             "
                    "0.05            2.90                    6.12\n"));
  const std::string rates =
      write("write_bw.txt",
            printed("RDMA_Write BW Test", " TX depth        : 128\n CQ Moderation   : 100\n",
                    " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
                    " 2          5000             7.60               7.50               3.932160\n"
                    " 64         5000             243.20             240.10             3.933800\n"
                    " 8388608    5000             11000.00           11000.00           0.001311\n"));
  const Ended imported = verbtwin(import({latencies, rates, "--link-gbps", "100"}));
  ASSERT_EQ(imported.exit_code, 0) << imported.err;
  EXPECT_EQ(imported.out, rates +
                              ":15: skipped: 8388608 bytes (with -a, --out_json has the last size only); up "
                              "to 1048576 can be simulated\nwrote " +
                              in("m/measurement.json") + ": 4 points\n");
  const Ended calibrated =
      verbtwin({"calibrate", "--measured", in("m/measurement.json"), "--nic", "connectx-4", "--host",
                "xeon-e5-2650v4", "--out", in("fitted"), "--evaluate"});
  ASSERT_EQ(calibrated.exit_code, 0) << calibrated.err;
  const json report = json::parse(read_text(in("fitted/report.json")));
  ASSERT_EQ(report.size(), 4U);
  EXPECT_EQ(report[0].at("experiment"), "read_latency");
  EXPECT_EQ(report[0].at("measured"), 1.75);
  EXPECT_EQ(report[3].at("experiment"), "write_rate");
  EXPECT_DOUBLE_EQ(report[3].at("measured"), 3.9338);
}

TEST_F(MeasurePerftest, WhatIsAskedWronglyIsToldInALine) {
  const std::string file = (kOutputs / "bw_write_64.txt").string();
  EXPECT_EQ(refusal({"measure", "--out", in("m")}),
            "verbtwin measure: what?; allowed: --primitives, --perftest FILE");
  EXPECT_EQ(refusal(import({file, "--primitives"})),
            "verbtwin measure: one of the two; allowed: --primitives, --perftest FILE");
  EXPECT_EQ(refusal(import({file})),
            "verbtwin measure: --perftest: --link-gbps is missing: perftest does not say how fast the link "
            "is; allowed: its data rate, 100 of EDR or 100 GbE");
  EXPECT_EQ(refusal(import({file, "--link-gbps", "nan"})),
            "verbtwin measure: --link-gbps nan: allowed: 1 to 1600 Gb/s (see verbtwin measure --help)");
  EXPECT_EQ(refusal(import({file, "--link-gbps", "100", "-t", "4"})),
            "verbtwin measure: --tx-depth is of --primitives; allowed with --perftest: --link-gbps, --out");
  EXPECT_EQ(refusal({"measure", "--primitives", "--out", in("m"), "--link-gbps", "100"}),
            "verbtwin measure: --link-gbps is of --perftest");
  EXPECT_THAT(refusal(import({in("none.txt"), "--link-gbps", "100"})), HasSubstr("none.txt: no such file"));
  EXPECT_THAT(refusal(import({file, (kOutputs / "lat_read_8.txt").string(), "--link-gbps", "100"})),
              HasSubstr("lat_read_8.txt:25:24: t_min[usec] is \"inf\"; allowed: a number"));
  EXPECT_FALSE(fs::exists(in("m")));
}

}  // namespace
}  // namespace verbtwin::tools
