// What perftest printed and wrote, as measurements: outputs of perftest 4.5 over soft-RoCE
// (testdata/perftest), and what is not one.
#include "calibration/perftest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"
#include "calibration/measurement.hpp"
#include "scenarios/document.hpp"

namespace verbtwin::calibration {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

const fs::path kOutputs = fs::path(VERBTWIN_SOURCE_DIR) / "calibration/testdata/perftest";

std::string output(const std::string& name) {
  return scenarios::read_text(kOutputs / name);
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  EXPECT_NE(text.find(what), std::string::npos) << what;
  return text.replace(text.find(what), what.size(), with);
}

class Perftest : public testing::Test {
 protected:
  static PerftestImport import(const std::vector<std::string>& names) {
    std::vector<fs::path> files;
    for (const std::string& name : names) files.push_back(kOutputs / name);
    return import_perftest(files, 100);
  }
  /// The only point of a file.
  static json point(const std::string& name) {
    const json points = import({name}).measurement.at("points");
    EXPECT_EQ(points.size(), 1U) << name;
    return points.at(0);
  }
  PerftestImport import_text(const std::string& text) const {
    return import_perftest({made_.write("file", text)}, 100);
  }
  std::string refusal(const std::string& text) const {
    try {
      import_text(text);
    } catch (const UserError& error) {
      const std::string line = error.what();
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
      EXPECT_LT(line.size(), 2000U);
      EXPECT_TRUE(line.starts_with((made_.path() / "file").string() + ":")) << line;
      EXPECT_THAT(line, HasSubstr("; allowed: "));
      return line.substr((made_.path() / "file").string().size() + 1);
    }
    return "nothing";
  }

  TemporaryDirectory made_;
};

json expected(const char* verb, int payload_b, int outstanding, int queue_pairs, int signal_interval,
              const char* mode, const std::string& source) {
  PrimitivePoint point{verb, "rc", payload_b, outstanding};
  point.queue_pairs = queue_pairs;
  point.signal_interval = signal_interval;
  point.mode = mode;
  json all = to_json(point);
  all["source"] = (kOutputs / source).string();
  return all;
}
json with(json all, const char* key, json value) {
  all[key] = std::move(value);
  return all;
}

TEST_F(Perftest, BandwidthIsARateInUnitsThatNoFlagChanges) {
  const json writes = with(expected("write", 64, 4 * 128, 4, 100, "pipelined", "bw_write_64.txt:35"),
                           "operations_per_s", 38048);
  EXPECT_EQ(point("bw_write_64.txt"), writes);
  EXPECT_EQ(with(point("bw_write_64.json.txt"), "source", writes["source"]), writes);
  const json gbits = with(expected("write", 4096, 128, 1, 100, "pipelined", "bw_write_gbits.txt:23"),
                          "operations_per_s", 11501);
  EXPECT_EQ(with(point("bw_write_gbits.txt"), "source", gbits["source"]), gbits);
  EXPECT_EQ(with(point("bw_write_gbits.json.txt"), "source", gbits["source"]), gbits);
}

TEST_F(Perftest, MoreThanTheLinkCarriesIsOfAnotherLink) {
  const std::string text = output("bw_write_gbits.txt");  // 4 KiB
  EXPECT_EQ(refusal(replaced(text, "0.011501", "3.112793")),
            "23:61: MsgRate is 3.112793 of 4096 B, which are 102 Gb/s; allowed: at most the 100 Gb/s of "
            "--link-gbps");
  EXPECT_EQ(refusal(replaced(text, "0.011501", "3.051757")), "nothing");
  EXPECT_THAT(refusal(replaced(output("bw_write_gbits.json.txt"), "0.011501", "4.2")),
              HasSubstr(" 138 Gb/s;"));
}

TEST_F(Perftest, SoonerThanTheLinkCarriesItIsOfAnotherLink) {
  const std::string text = output("lat_write_8.txt");
  const auto of_1_mib = [&](const char* median_us) {  // 83.9 us on a link of 100 Gb/s
    return refusal(replaced(replaced(text, "\n 8  ", "\n 1048576  "), "26.45", median_us));
  };
  EXPECT_THAT(of_1_mib("81"),
              testing::MatchesRegex("22:[0-9]+: t_typical is 81 us of 1048576 B; allowed: at least the 83.9 "
                                    "us that these take over the "
                                    "100 Gb/s of --link-gbps; is it in GB/s\\? Those are 800 Gb/s"));
  EXPECT_THAT(of_1_mib("10"), EndsWith("of --link-gbps")) << "nor would 800 Gb/s do";
  EXPECT_EQ(of_1_mib("83"), "nothing");
}

TEST_F(Perftest, LatencyIsTheMedianAsItsToolHasIt) {
  const auto median = [](const char* verb, const char* mode, const std::string& source, double p50_us) {
    return with(expected(verb, 8, 1, 1, 1, mode, source), "latency_us", {{"p50", p50_us}});
  };
  const json write = median("write", "ping_pong", "lat_write_8.txt:22", 26.45);
  EXPECT_EQ(point("lat_write_8.txt"), write) << "half a round trip in both";
  EXPECT_EQ(with(point("lat_write_8.json.txt"), "source", write["source"]), write);
  const json swap = median("compare_swap", "pipelined", "lat_cas.txt:24", 22.58);
  EXPECT_EQ(point("lat_cas.txt"), swap);
  EXPECT_EQ(with(point("lat_cas.json.txt"), "source", swap["source"]), swap);
  EXPECT_EQ(point("lat_write_hist.txt"), median("write", "ping_pong", "lat_write_hist.txt:72", 18.61))
      << "behind the samples of -H";
}

TEST_F(Perftest, AllSizesArePointsOfATable) {
  const PerftestImport reads = import({"bw_read_a.txt"});
  const json& points = reads.measurement.at("points");
  ASSERT_EQ(points.size(), 18U);
  for (std::size_t i = 0; i < points.size(); ++i) EXPECT_EQ(points[i].at("payload_b"), 2 << i);
  EXPECT_EQ(points[0].at("operations_per_s"), 14248);
  EXPECT_EQ(points[17].at("operations_per_s"), 254);
  EXPECT_THAT(reads.skipped, IsEmpty());
  EXPECT_EQ(point("bw_read_a.json.txt").at("payload_b"), 262144) << "the last size only";

  const PerftestImport latencies = import({"lat_read_all.txt"});
  ASSERT_EQ(latencies.measurement.at("points").size(), 20U);
  EXPECT_EQ(latencies.measurement.at("points")[10].at("latency_us").at("p50"), 76.0);
  ASSERT_EQ(latencies.skipped.size(), 2U) << "larger than a scenario's";
  EXPECT_THAT(latencies.skipped[0], HasSubstr("lat_read_all.txt:44: skipped: 2097152 bytes"));
}

TEST_F(Perftest, WhatDidNotComeToItsEndIsPartial) {
  EXPECT_EQ(import({"kill.txt"}).measurement.at("partial"), true);
  EXPECT_EQ(import({"kill.txt"}).measurement.at("points").size(), 1U);
  EXPECT_EQ(import({"bw_read_a.txt"}).measurement.at("partial"), true) << "no report of the last size";
  EXPECT_EQ(import({"bw_write_64.txt"}).measurement.at("partial"), false);
}

TEST_F(Perftest, TheMeasurementIsOneThatCanBeRead) {
  const PerftestImport all = import({"bw_write_64.txt", "lat_write_8.json.txt", "lat_cas.txt"});
  const Measurement read = read_measurement(made_.write("measurement.json", all.measurement.dump()));
  EXPECT_FALSE(read.partial);
  EXPECT_FALSE(read.one_machine);
  EXPECT_TRUE(read.ethernet);
  EXPECT_EQ(read.link_gbps, 100);
  EXPECT_EQ(read.mtu_b, 1024);
  EXPECT_EQ(read.devices, "rxe0, 100 Gb/s Ethernet; CPU not named");
  ASSERT_EQ(read.points.size(), 3U);
  EXPECT_FALSE(read.points[0].tells_latency());
  EXPECT_EQ(read.points[0].operations_per_s, 38048);
  EXPECT_TRUE(read.points[1].tells_latency());
  EXPECT_EQ(read.points[1].latency_p50_us, 26.45);
  EXPECT_FALSE(read.points[1].operations_per_s);
}

TEST_F(Perftest, HeadersAreTakenAsTheyAre) {
  const std::string writes = output("bw_write_64.txt");
  const auto imported = [&](const std::string& what, const std::string& with_what) {
    return import_text(replaced(writes, what, with_what)).measurement;
  };
  const json sends = imported("RDMA_Write BW", "Send Post List BW").at("points")[0];
  EXPECT_EQ(sends.at("verb"), "send");
  EXPECT_EQ(imported("TX depth        : 128", "TX depth        : 32\n Post List       : 16")
                .at("points")[0]
                .at("doorbell_batch"),
            16);
  EXPECT_EQ(imported("inline data : 0[B]", "inline data : 64[B]").at("points")[0].at("inline"), true);
  EXPECT_EQ(imported("inline data : 0[B]", "inline data : 63[B]").at("points")[0].at("inline"), false);
  EXPECT_EQ(imported("Link type       : Ethernet", "Link type       : IB")
                .at("measured_on")[0]
                .at("devices")[0]
                .at("link_layer"),
            "InfiniBand");
  EXPECT_EQ(
      imported("OFF\t\tDevice", "OFF          Device").at("measured_on")[0].at("devices")[0].at("device"),
      "rxe0")
      << "tabs that became spaces";
  EXPECT_EQ(imported("MsgRate[Mpps]",
                     "MsgRate[Mpps]    CPU_Util[%]\n 64 8000 3.77 2.32 0.05 12.5\n#bytes "
                     "#iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]")
                .at("points")[0]
                .at("operations_per_s"),
            50000);
  const std::string twice = writes + output("lat_cas.txt");
  EXPECT_EQ(import_text(twice).measurement.at("points").size(), 2U) << "one run behind another";
  std::string crlf;
  for (const char c : writes) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(import_text(crlf).measurement.at("points")[0].at("operations_per_s"), 38048);
}

TEST_F(Perftest, JsonOfNewerVersionsIsTakenToo) {
  const json written =
      json::parse(R"({"test_info": {"test": "RDMA_Read_BW_Test", "Dual_port": "OFF", "Device": "mlx5_0",
    "Number_of_qps": 2, "Transport_type": "IB", "Connection_type": "RC", "Using_SRQ": "OFF", "TX_depth": 64,
    "CQ_Moderation": 1, "Mtu": 4096, "Link_type": "IB", "Outstand_reads": 16, "rdma_cm_QPs": "OFF"},
    "results": {"MsgSize": 4096, "n_iterations": 5000, "BW_peak": 0.0, "BW_average": 91.5, "MsgRate": 2.792358}})");
  for (const int indent : {-1, 0, 2}) {
    const json measurement = import_text(written.dump(indent)).measurement;
    EXPECT_EQ(measurement.at("points")[0].at("operations_per_s"), 2792358);
    EXPECT_EQ(measurement.at("points")[0].at("outstanding"), 128);
    EXPECT_EQ(measurement.at("measured_on")[0].at("devices")[0].at("device"), "mlx5_0");
  }
}

TEST_F(Perftest, WhatCannotBeSimulatedIsLeftOutAndSaid) {
  const std::string writes = output("lat_write_8.txt");
  const std::string row = " 8       1000 ";
  const std::string with_two = replaced(writes, row, " 2 1000 1 2 3 4 5 6 7\n" + row);
  const PerftestImport all = import_text(with_two);
  EXPECT_EQ(all.measurement.at("points").size(), 1U);
  ASSERT_EQ(all.skipped.size(), 1U);
  EXPECT_THAT(all.skipped[0], HasSubstr(":22: skipped: a WRITE's latency, of 2 B"));
  EXPECT_THAT(refusal(replaced(writes, "RDMA_Write", "Send")),
              HasSubstr("22: skipped: half a round trip of two SENDs"));
  const std::string rates = output("bw_write_64.txt");
  EXPECT_THAT(refusal(replaced(rates, "qps   : 4", "qps   : 64")),
              HasSubstr("8192 requests in flight; up to 4096 can be simulated"));
  EXPECT_THAT(refusal(replaced(rates, "RC", "UD")), HasSubstr("4 queue pairs; up to 1"));
  const std::string larger = replaced(rates, " 64         8000", " 220         8000");
  EXPECT_EQ(refusal(larger), "nothing");
  EXPECT_THAT(refusal(replaced(larger, "inline data : 0[B]", "inline data : 220[B]")),
              HasSubstr("220 bytes inline; up to 188 can be simulated"));
  const std::string reads = output("bw_read_a.txt"), most = "Outstand reads  : 128";  // of 128 in flight
  EXPECT_THAT(refusal(replaced(reads, most, "Outstand reads  : 15")),
              HasSubstr("15 READs or atomics outstanding on a queue pair (-o); from 16 on"));
  EXPECT_EQ(refusal(replaced(reads, most, "Outstand reads  : 16")), "nothing");
  EXPECT_EQ(refusal(replaced(replaced(reads, most, "Outstand reads  : 8"), "TX depth        : 128",
                             "TX depth        : 8")),
            "nothing");
}

TEST_F(Perftest, WhatIsNoMeasurementIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal(output("lat_read_8.txt")), "25:24: t_min[usec] is \"inf\"; allowed: a number");
  EXPECT_EQ(refusal(output("lat_read_8.json.txt")), "28:16: percentile_99 is \"inf\"; allowed: a number");
  EXPECT_THAT(refusal(output("lat_write_dur.txt")),
              HasSubstr("22:2: t_typical is missing; allowed: a test with neither -D"));
  EXPECT_THAT(refusal(output("lat_write_dur.json.txt")), HasSubstr("t_typical is missing"));
  const std::string writes = output("bw_write_64.txt");
  const auto changed = [&](const std::string& what, const std::string& with_what) {
    return refusal(replaced(writes, what, with_what));
  };
  EXPECT_EQ(changed("0.038048", "-nan"), "35:61: MsgRate[Mpps] is \"-nan\"; allowed: a number");
  EXPECT_EQ(changed("0.038048", "0.000000"),
            "35:61: MsgRate is \"0.000000\"; allowed: a number, 1e-06 to 100000");
  EXPECT_THAT(changed("0.038048", "1e300"), HasSubstr("MsgRate is \"1e300\"; allowed"));
  EXPECT_THAT(changed("0.038048", "1e999"), HasSubstr("is \"1e999\"; allowed: a number"));
  EXPECT_THAT(changed("0.038048", "0.038048 7"), HasSubstr("35:2: a result of 6 columns; allowed: 5"));
  EXPECT_THAT(changed("2.32   ", ""), HasSubstr("35:2: a result of 4 columns; allowed: 5"));
  EXPECT_THAT(changed("MsgRate[Mpps]", "Rate"), HasSubstr("MsgRate is missing"));
  EXPECT_THAT(changed(" 64         8000", " 99999999999999999999 8000"),
              HasSubstr("35:2: MsgSize is \"99999999999999999999\""));
  EXPECT_THAT(changed("RDMA_Write BW Test", "RDMA_Write Bidirectional BW Test"),
              HasSubstr("2:21: the test \"RDMA_Write_Bidirectional_BW_Test\"; allowed: BW and Latency"));
  EXPECT_THAT(changed("TX depth        : 128", "RX depth        : 512"),
              HasSubstr("TX_depth is missing; allowed: the output of the end that posts"));
  EXPECT_THAT(changed("TX depth        : 128", "TX depth        : 0"),
              HasSubstr("8:20: TX_depth is \"0\"; allowed: a whole number, 1 to"));
  EXPECT_THAT(changed("SRQ      : OFF", "SRQ      : ON"),
              HasSubstr("5:41: Using_SRQ is \"ON\"; allowed: OFF"));
  EXPECT_THAT(changed("Transport type : IB", "Transport type : iWARP"), HasSubstr("Transport_type"));
  EXPECT_THAT(changed("Connection type : RC", "Connection type : DC"), HasSubstr("allowed: RC, UD"));
  EXPECT_THAT(changed("Test\n", "Test\n Test with events. Using rxe0_comp0\n"),
              HasSubstr("3:1: Test_with_events"));
  EXPECT_THAT(changed("Test\n", "Test\n Using ROCm Device with ID: 0\n"),
              HasSubstr("3:1: GPU_memory is \"ON\"; allowed: OFF"));
  EXPECT_THAT(refusal("initializing CUDA\n" + writes), HasSubstr("1:1: GPU_memory"));
  EXPECT_EQ(refusal(writes + "CUDA is another program's here\n"), "nothing");
  EXPECT_THAT(changed("Mtu             : 1024", "Mtu             : 9000"),
              HasSubstr("Mtu is \"9000[B]\"; allowed: a whole number, 256 to 4096"));
  EXPECT_THAT(changed("RDMA_Write BW Test", ""), HasSubstr("a table without the header above it"));
  EXPECT_THAT(changed(" 64         8000             3.77               2.32   \t\t   0.038048\n", ""),
              HasSubstr("2:21: a test without a result"));
  EXPECT_THAT(refusal(writes + replaced(writes, "Mtu             : 1024", "Mtu             : 4096")),
              HasSubstr("38:21: of {\"device\":\"rxe0\",\"link_layer\":\"Ethernet\",\"mtu\":4096}"));
  const std::string written = output("bw_write_64.json.txt");
  EXPECT_THAT(refusal(replaced(written, "TX_depth : 128", "TX_depth : many")),
              HasSubstr("12:12: TX_depth is \"many\""));
  EXPECT_THAT(refusal(replaced(written, "TX_depth : 128", "TX_depth : 12 8")),
              HasSubstr("12:15: a syntax error; allowed: what --out_json"));
  EXPECT_THAT(refusal(replaced(written, "Mtu:", "Number_of_qps:")),
              HasSubstr("14:16: \"Number_of_qps\" stands twice"));
  EXPECT_THAT(refusal(replaced(written, "MsgRate: ", "MsgRate: [1], x: ")),
              HasSubstr("\"MsgRate\" is a list"));
  EXPECT_THAT(refusal(replaced(written, "results", "result")), HasSubstr("1:1: no results"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("1:1: no output of perftest"));
  EXPECT_THAT(refusal("{}"), HasSubstr("1:1: no test_info"));
  EXPECT_THAT(refusal(replaced(written, "0.038048", "1e999")),
              HasSubstr("26:10: MsgRate is \"1e999\"; allowed: a number"));
}

TEST_F(Perftest, HostileFilesAreRefusedInALine) {
  EXPECT_THAT(refusal(""), HasSubstr("1:1: no output of perftest"));
  EXPECT_THAT(refusal(std::string("abc\n\0", 5)), HasSubstr("2:1: NUL byte"));
  EXPECT_THAT(refusal("\x7f"
                      "ELF\xff\xfe\x80"),
              HasSubstr("no output of perftest"));
  EXPECT_THAT(refusal("{\xff\xfe: \x80}"), HasSubstr("a syntax error"));
  EXPECT_THAT(refusal(std::string(1 << 20, 'x')), HasSubstr("no output of perftest"));
  EXPECT_THAT(refusal("{" + std::string(1 << 19, '"')), HasSubstr("a syntax error"));
  EXPECT_THAT(refusal("{" + std::string(1 << 20, ' ')),
              HasSubstr("1:1: the file is too large; allowed: 1 MiB"));
  std::string titles;
  for (int i = 0; i <= 10'000; ++i) titles += "RDMA_Read BW Test\n";
  EXPECT_THAT(refusal(titles), HasSubstr("10001:1: too many tests; allowed: 10000"));
  EXPECT_THAT(refusal(std::string(1 << 19, '{')), HasSubstr("a syntax error"));
  EXPECT_THAT(refusal("{a:" + std::string(1 << 19, '[')), HasSubstr("the file ends too early"));
  const std::string writes = output("bw_write_64.txt");
  EXPECT_THAT(refusal(replaced(writes, "0.038048", std::string(1 << 20, '9'))),
              HasSubstr("MsgRate[Mpps] is \"999"));
  EXPECT_THAT(refusal(replaced(writes, "0.038048", std::string(1 << 20, ' '))), HasSubstr("4 columns"));
  std::string wide;
  for (int i = 0; i < 1 << 19; ++i) wide += "1 ";
  EXPECT_THAT(refusal(replaced(writes, "0.038048", wide)), HasSubstr("a result of 524292 columns"));
  EXPECT_THAT(refusal(replaced(writes, "rxe0", "rxe0\n" + std::string(1 << 20, ':'))), "nothing");
  std::string rows = writes.substr(0, writes.rfind(" 64   "));
  for (int i = 0; i <= 10'000; ++i) rows += "8 1 1 1 1\n";
  EXPECT_THAT(refusal(rows), HasSubstr("too many results; allowed: 10000"));
}

// Wherever a file ends, there is either a refusal of a line or what stands before.
TEST_F(Perftest, CutFilesNeverGiveOtherNumbers) {
  for (const char* name : {"bw_write_64.txt", "lat_read_all.txt", "lat_cas.json.txt", "lat_write_hist.txt"}) {
    const std::string whole = output(name);
    const json points = json::parse(import_text(whole).measurement.at("points").dump());
    for (std::size_t length = 0; length < whole.size(); length += 23) {
      if (refusal(whole.substr(0, length)) != "nothing") continue;
      const json part = import_text(whole.substr(0, length)).measurement;
      ASSERT_LE(part.at("points").size(), points.size());
      EXPECT_TRUE(std::equal(part.at("points").begin(), part.at("points").end(), points.begin()))
          << name << ", " << length;
    }
  }
}

}  // namespace
}  // namespace verbtwin::calibration
