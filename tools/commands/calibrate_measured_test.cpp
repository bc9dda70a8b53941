// Profiles fitted to a measurement: one that a simulated cluster of known machines gives, whose costs the fit
// has to find again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backend/user_error.hpp"
#include "calibration/measurement.hpp"
#include "models/profile.hpp"
#include "tools/tests/child_process_for_test.hpp"
#include "tools/tests/measured_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using calibration::PrimitivePoint;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::vector<PrimitivePoint> some_points() {
  std::vector<PrimitivePoint> points;
  for (const char* verb : {"read", "write", "send"}) {
    for (const int payload_b : {8, 2048}) {
      for (const int outstanding : {1, 16}) {
        PrimitivePoint point{verb, "rc", payload_b, outstanding};
        if (point.verb == "write" && outstanding == 1) point.mode = "ping_pong";
        points.push_back(point);
      }
    }
  }
  points.push_back({"compare_swap", "rc"});
  points.push_back({"send", "ud", 64, 16});
  // One thread does not fill the engines, nor does what takes a DMA read each.
  for (const char* verb : {"read", "write"}) {
    PrimitivePoint full{verb, "rc", 8, 128, 16};
    full.threads = 8;
    full.signal_interval = 100;
    full.is_inline = full.verb == "write";
    points.push_back(full);
  }
  return points;
}

TEST_F(CalibrateMeasured, FindsTheCostsOfTheMachinesThatWereMeasured) {
  std::map<std::string, double> nic = {{"send_pipeline_ns", 0.7},
                                       {"recv_pipeline_ns", 0.7},
                                       {"dma_read_ns", 1.3},
                                       {"dma_write_ns", 1.3},
                                       {"mmio_ns", 1.3}};
  for (const char* engine : {"send_doorbell_ns", "send_wqe_ns", "send_wqe_block_ns", "send_response_ns",
                             "serve_request_ns", "send_fetch_ns", "recv_packet_ns", "recv_ack_ns",
                             "recv_wqe_ns", "recv_imm_ns", "queue_pair_gap_ns", "atomic_engine_ns"}) {
    nic[engine] = 1.5;
  }
  write(in("nic.json"), changed("connectx-4", nic));
  std::map<std::string, double> host;
  for (const auto& parameter : models::host_parameters()) {
    if (std::string(parameter.unit) == "ns") host[parameter.name] = 1.5;
  }
  write(in("host.json"), changed("xeon-e5-2650v4", host));
  json points = json::array();
  for (const PrimitivePoint& point : some_points()) points.push_back(simulated(point));
  write(in("measurement.json"), measurement_of(points));

  ChildProcess before = calibrate({"--evaluate"});
  ASSERT_EQ(before.wait(), 0) << before.err();
  EXPECT_FALSE(fs::exists(in("fitted/nic.json"))) << "nothing was fitted";
  const auto worst = [&] {
    double error = 0;
    for (const json& entry : json::parse(read_text(in("fitted/report.json")))) {
      EXPECT_EQ(entry.at("set"), "measured");
      error = std::max(error, std::abs(entry.at("error").get<double>()));
    }
    return error;
  };
  EXPECT_GT(worst(), 0.1);

  ChildProcess run = calibrate();
  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_LT(worst(), 0.03);
  EXPECT_THAT(run.out(), HasSubstr("--set cluster.nic=" + in("fitted/nic.json")));
  const json fitted_nic = json::parse(read_text(in("fitted/nic.json"))).at("parameters");
  const json fitted_host = json::parse(read_text(in("fitted/host.json"))).at("parameters");
  const auto times = [](const json& fitted, const char* profile, const char* parameter) {
    return fitted.at(parameter).at("value").get<double>() /
           changed(profile, {}).at("parameters").at(parameter).at("value").get<double>();
  };
  EXPECT_NEAR(times(fitted_nic, "connectx-4", "send_wqe_ns"), 1.5, 0.05);
  EXPECT_NEAR(times(fitted_nic, "connectx-4", "recv_pipeline_ns"), 0.7, 0.05);
  EXPECT_NEAR(times(fitted_nic, "connectx-4", "dma_read_ns"), 1.3, 0.08);
  EXPECT_NEAR(times(fitted_host, "xeon-e5-2650v4", "post_wr_ns"), 1.5, 0.08);

  ChildProcess use =
      start({"run", in("scenario.json"), "--quiet", "--set", "cluster.nic=" + in("fitted/nic.json"), "--set",
             "cluster.host=" + in("fitted/host.json")});
  EXPECT_EQ(use.wait(), 0) << use.err();
}

/// What no factor is on is fitted where rates are far off without.
TEST_F(CalibrateMeasured, ALimitOfTheSlotOrOfDmaReadsIsFound) {
  const json base = changed("connectx-4", {});
  json nic = base;
  nic.at("parameters").at("dma_reads_outstanding").at("value") = 20;
  write(in("nic.json"), nic);
  write(in("host.json"), changed("xeon-e5-2650v4", {}));
  json points = json::array();
  for (const PrimitivePoint& point : some_points()) points.push_back(simulated(point));
  write(in("measurement.json"), measurement_of(points));
  ChildProcess run = calibrate();
  ASSERT_EQ(run.wait(), 0) << run.err();
  const auto value = [](const json& profile, const char* name) {
    return profile.at("parameters").at(name).at("value").get<double>();
  };
  const json fitted = json::parse(read_text(in("fitted/nic.json")));
  EXPECT_NEAR(value(fitted, "dma_reads_outstanding"), 20, 2)
      << "not " << value(base, "dma_reads_outstanding");
  EXPECT_NEAR(value(fitted, "send_wqe_ns") / value(base, "send_wqe_ns"), 1, 0.1);
  EXPECT_EQ(value(fitted, "pcie_gbps"), value(base, "pcie_gbps"));
  EXPECT_THAT(run.out(), Not(HasSubstr("20 % off")));
  EXPECT_THAT(run.out(), HasSubstr("does not say the rate of the NICs' slots: taken for the"));
}

TEST_F(CalibrateMeasured, ADeviceThatNoFactorExplainsIsSaidToBeOne) {
  PrimitivePoint alone{"read", "rc"};
  write(in("measurement.json"), measurement_of(json::array({measured(alone, 250, 4000)})));
  ChildProcess run = calibrate();
  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(read_text(in("fitted/REPORT.md")), Not(HasSubstr("paper says")));
  EXPECT_THAT(run.out(), HasSubstr("the end of its range"));
  EXPECT_THAT(run.out(), HasSubstr("1 of 1 points are more than 20 % off"));
  EXPECT_THAT(read_text(in("fitted/REPORT.md")), HasSubstr("| the end of its range"));
  EXPECT_THAT(run.out(), HasSubstr("all                                      median"));
}

/// 128 payloads of 1 MiB take longer than a window that is enough for short ones.
TEST_F(CalibrateMeasured, LongMessagesAreSimulatedForAsLongAsTheyTake) {
  PrimitivePoint point{"write", "rc", 1 << 20, 128};
  point.signal_interval = 100;
  write(in("measurement.json"), measurement_of(json::array({measured(point, 11'500, 11'000)})));
  ChildProcess evaluation = calibrate({"--evaluate"});
  ASSERT_EQ(evaluation.wait(), 0) << evaluation.err();
  const json report = json::parse(std::ifstream(in("fitted/report.json")));
  ASSERT_EQ(report.size(), 1U);
  EXPECT_NEAR(report[0].at("error"), 0, 0.06) << "the link is full in both";
}

/// Where one in 100 is signalled, whole batches are counted at a window's ends.
TEST_F(CalibrateMeasured, WindowsAreSoLongThatTheirEndsDoNotTell) {
  write(in("nic.json"), changed("connectx-4", {}));
  write(in("host.json"), changed("xeon-e5-2650v4", {}));
  json points = json::array();
  for (const int payload_b : {8, 64, 1024}) {
    for (const int outstanding : {16, 128}) {
      PrimitivePoint point{"read", "rc", payload_b, outstanding};
      point.signal_interval = 100;
      points.push_back(simulated(point, 20'000));
    }
  }
  write(in("measurement.json"), measurement_of(points));
  ChildProcess evaluation = calibrate({"--evaluate"});
  ASSERT_EQ(evaluation.wait(), 0) << evaluation.err();
  for (const json& point : json::parse(read_text(in("fitted/report.json"))))
    EXPECT_NEAR(point.at("error"), 0, 0.005) << point;
}

TEST_F(CalibrateMeasured, AMeasurementOverAnotherLinkThanTheProfilesIsSaidToBe) {
  json measurement = measurement_of(json::array({measured({"read", "rc"}, 4e5, 2.5)}));
  for (json& end : measurement["measured_on"]) end["devices"][0]["link_gbps"] = 25.0;
  write(in("measurement.json"), measurement);
  constexpr const char* kSaid = "has a link of 100 Gb/s, and measurement.json is of one of 25 Gb/s.";
  ChildProcess evaluation = calibrate({"--evaluate"});
  ASSERT_EQ(evaluation.wait(), 0) << evaluation.err();
  EXPECT_THAT(evaluation.out(), HasSubstr(kSaid));
  EXPECT_THAT(read_text(in("fitted/REPORT.md")), HasSubstr(kSaid));
  for (json& end : measurement["measured_on"]) end["devices"][0]["pcie_gbps"] = 63.0;
  write(in("measurement.json"), measurement);
  ChildProcess slot = calibrate({"--evaluate"});
  ASSERT_EQ(slot.wait(), 0) << slot.err();
  EXPECT_THAT(
      slot.out(),
      HasSubstr("25 Gb/s. The NIC profile has a slot of 126 Gb/s, and measurement.json is of one of 63"));
  ChildProcess fit = calibrate();
  ASSERT_EQ(fit.wait(), 0) << fit.err();
  EXPECT_THAT(fit.out(), Not(HasSubstr("has a link")));
  EXPECT_THAT(fit.out(), Not(HasSubstr("slot")));
}

TEST_F(CalibrateMeasured, PointsThatDifferInInliningAloneAreOfTwoSeries) {
  PrimitivePoint plain{"write", "rc", 64, 16}, inlined = plain, larger = plain;
  inlined.is_inline = true;
  larger.payload_b = 1024;
  json points = json::array();
  for (const PrimitivePoint& point : {plain, inlined, larger}) points.push_back(measured(point, 4e6, 2.5));
  write(in("measurement.json"), measurement_of(points));
  ChildProcess evaluation = calibrate({"--evaluate"});
  ASSERT_EQ(evaluation.wait(), 0) << evaluation.err();
  std::vector<std::string> series;
  for (const json& point : json::parse(read_text(in("fitted/report.json"))))
    series.push_back(point.at("series"));
  EXPECT_THAT(series,
              testing::ElementsAre("window 16, not inline", "window 16, inline", "window 16, not inline"));
}

TEST_F(CalibrateMeasured, APartialMeasurementIsSaidToBeOne) {
  json measurement = measurement_of(json::array({measured({"read", "rc"}, 4e5, 2.5)}));
  constexpr const char* kPartial =
      "measurement.json is partial: it ended before all of its points were measured.\n";
  write(in("measurement.json"), measurement);
  ChildProcess whole = calibrate({"--evaluate"});
  ASSERT_EQ(whole.wait(), 0) << whole.err();
  EXPECT_THAT(whole.out() + read_text(in("fitted/REPORT.md")), Not(HasSubstr("partial")));
  measurement["partial"] = true;
  write(in("measurement.json"), measurement);
  ChildProcess partial = calibrate({"--evaluate"});
  ASSERT_EQ(partial.wait(), 0) << partial.err();
  EXPECT_THAT(partial.out(), HasSubstr(kPartial));
  EXPECT_THAT(read_text(in("fitted/REPORT.md")), HasSubstr(std::string("\n\n") + kPartial));
}

TEST_F(CalibrateMeasured, FactorsNameParametersThatThereAre) {
  calibration::Machines machines;
  machines.add_profile(calibration::ProfileKind::kNic, changed("connectx-5", {}));
  machines.add_profile(calibration::ProfileKind::kHost, changed("xeon-e5-2650v4", {}));
  calibration::Measurement measurement;
  measurement.link_gbps = 25;
  measurement.mtu_b = 1024;
  measurement.ethernet = true;
  calibration::add_machines(machines, measurement, "mine", "connectx-5", "my-host", "xeon-e5-2650v4");
  machines.build("mine");
  machines.build("my-host");
  std::map<std::string, std::size_t> parameters;
  for (const auto& v : machines.variables("mine")) parameters[v.name] = v.parameters.size();
  EXPECT_EQ(parameters, (std::map<std::string, std::size_t>{
                            {"engines", 12}, {"streams", 5}, {"pipelines", 2}, {"PCIe latency", 3}}));
  const auto nic = machines.profiles().nics.at("mine");
  EXPECT_EQ(nic.link_gbps, 25);
  EXPECT_EQ(nic.mtu_b, 1024);
  EXPECT_EQ(nic.wire_header_b, 56) << "RoCEv2";
  EXPECT_EQ(nic.pcie_gbps, 126) << "as in the profile: the measurement does not say it";
  // What a fit has said of the profile that it made is not said of this one.
  EXPECT_THAT(machines.document("mine").dump(), Not(HasSubstr(calibration::kNotDetermined)));
  EXPECT_THAT(machines.document("mine").dump(), Not(HasSubstr(calibration::kLeftWhereItBegan)));
  measurement.pcie_gbps = 63;
  calibration::add_machines(machines, measurement, "mine", "connectx-5", "my-host", "xeon-e5-2650v4", true);
  machines.build("mine");
  EXPECT_EQ(machines.profiles().nics.at("mine").pcie_gbps, 63);
  EXPECT_EQ(machines.variables("mine").back().name, "DMA reads") << "the slot's rate is known";
}

TEST_F(CalibrateMeasured, WhatIsWrongInAMeasurementIsToldWithItsPlace) {
  json good = measurement_of(json::array({measured({"read", "rc"}, 4e5, 2.5)}));
  const auto error_of = [&](const char* pointer, const json& value) {
    json bad = good;
    if (value.is_null()) {
      const json::json_pointer at(pointer);
      json& parent = bad.at(at.parent_pointer());
      if (parent.is_array()) {
        parent.erase(parent.size() - 1);
      } else {
        parent.erase(at.back());
      }
    } else {
      bad.at(json::json_pointer(pointer)) = value;
    }
    write(in("measurement.json"), bad);
    try {
      calibration::read_measurement(in("measurement.json"));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(error_of("/partial", true), "nothing");
  EXPECT_THAT(error_of("/format", "verbtwin-result"), HasSubstr("/format"));
  EXPECT_THAT(error_of("/version", 2), HasSubstr("/version"));
  EXPECT_THAT(error_of("/points", json::array()), HasSubstr("/points"));
  EXPECT_EQ(error_of("/measured_on/1", json()), "nothing") << "perftest knows one end";
  EXPECT_THAT(error_of("/measured_on", json::array()), HasSubstr("/measured_on"));
  EXPECT_EQ(error_of("/points/0/operations_per_s", json()), "nothing") << "its latency is what is compared";
  EXPECT_EQ(error_of("/points/0/latency_us", json()), "nothing");
  EXPECT_THAT(error_of("/points/0/latency_us/p50", json()), HasSubstr("/points/0/latency_us"));
  EXPECT_THAT(error_of("/measured_on/0/devices", json::array()), HasSubstr("/measured_on/0/devices"));
  EXPECT_THAT(error_of("/measured_on/0/devices/0/link_gbps", 0), HasSubstr("link_gbps"));
  EXPECT_THAT(error_of("/measured_on/0/devices/0/link_gbps", json()),
              HasSubstr("/measured_on/0/devices/0: missing key \"link_gbps\""));
  EXPECT_THAT(error_of("/measured_on/0/devices/0/link_gbps", 1e9),
              HasSubstr("link_gbps: out of range: 1000000000.0; allowed: number, 1 to 1600"));
  EXPECT_THAT(error_of("/measured_on/0/devices/0/link_layer", "foo"),
              HasSubstr("link_layer: unknown value \"foo\"; allowed: InfiniBand, Ethernet"));
  EXPECT_EQ(error_of("/measured_on/1/devices/0/link_layer", "Ethernet"), "nothing");
  good["measured_on"][0]["devices"][0]["pcie_gbps"] = 63.0;
  EXPECT_EQ(error_of("/partial", true), "nothing");
  EXPECT_THAT(error_of("/measured_on/0/devices/0/pcie_gbps", 0),
              HasSubstr("pcie_gbps: out of range: 0; allowed: number, 1 to 4000"));
  EXPECT_THAT(
      error_of("/points/0/latency_us/p50", 1e-300),
      testing::ContainsRegex("measurement.json:[0-9]+:[0-9]+: /points/0/latency_us/p50: out of range: "
                             "1e-300; allowed: number, 0.01 to 1000000000"));
  EXPECT_THAT(error_of("/points/0/operations_per_s", 1e-300), HasSubstr("allowed: number, 0.001 to "));
  EXPECT_THAT(error_of("/points/0/operations_per_s", 1e12), HasSubstr("/points/0/operations_per_s"));
  EXPECT_THAT(
      error_of("/points/0/operations_per_s", 1.7e9),
      testing::ContainsRegex("measurement.json:[0-9]+:[0-9]+: /points/0/operations_per_s: of 8 B each, 109 "
                             "Gb/s; allowed: at most the 100 Gb/s of link_gbps"));
  // 4e5 operations/s of 2.5 us: one is in flight.
  EXPECT_THAT(
      error_of("/points/0/operations_per_s", 0.4),
      testing::ContainsRegex("measurement.json:[0-9]+:[0-9]+: /points/0/operations_per_s: 0.4 operations/s "
                             "of 2.5 us each are 1e-06 in flight; allowed: about the 1 of threads x "
                             "outstanding; is the rate in M operations/s, or the latency in s\\?"));
  EXPECT_THAT(error_of("/points/0/operations_per_s", 400), HasSubstr("is the rate in k operations/s"));
  EXPECT_THAT(error_of("/points/0/latency_us/p50", 2500),
              HasSubstr("/points/0/latency_us/p50: 4e+05 operations/s of 2500 us each are 1e+03 in flight; "
                        "allowed: about the 1 of threads x outstanding; is the latency in ns?"));
  EXPECT_EQ(error_of("/points/0/latency_us/p50", 1.2), "nothing") << "half a round trip";
  EXPECT_EQ(error_of("/points/0/latency_us/p50", 0.1), "nothing") << "threads that share cores";
  EXPECT_THAT(error_of("/points/0/verb", "raed"), HasSubstr("did you mean \"read\"?"));
  EXPECT_THAT(error_of("/points/0/outstanding", 0), HasSubstr("/points/0/outstanding"));
  EXPECT_THAT(error_of("/points/0/threads", 257), HasSubstr("/points/0/threads"));
  EXPECT_THAT(error_of("/points/0/operations_per_s", 0), HasSubstr("/points/0/operations_per_s"));
  EXPECT_THAT(error_of("/points/0/latency_us/p50", "fast"), HasSubstr("/points/0/latency_us/p50"));
  EXPECT_THAT(error_of("/points/0/signal_interval", json()), HasSubstr("signal_interval"));
  good["points"][0]["outstanding"] = 2;
  EXPECT_EQ(error_of("/points/0/latency_us", json()), "nothing");
  EXPECT_THAT(error_of("/points/0/operations_per_s", json()),
              HasSubstr("/points/0: missing: operations_per_s; allowed without it: one request at a time"));
}

TEST_F(CalibrateMeasured, AnInterruptedFitSaysSo) {
  json points = json::array();
  for (const PrimitivePoint& point : some_points())
    points.push_back(measured(point, 4e5, 2.5 * point.outstanding * point.threads));
  write(in("measurement.json"), measurement_of(points));
  ChildProcess run = calibrate();
  for (int i = 0; i < 2000 && !fs::exists(in("fitted")); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 128 + SIGINT);
  EXPECT_EQ(run.err(), "PARTIAL: ended before all points were simulated; nothing is written\n");
  EXPECT_FALSE(fs::exists(in("fitted")));
}

TEST_F(CalibrateMeasured, WhatIsAskedWronglyIsToldInOneLine) {
  write(in("measurement.json"), measurement_of(json::array({measured({"read", "rc"}, 4e5, 2.5)})));
  const auto refused = [&](std::vector<std::string> arguments, const char* why) {
    arguments.insert(arguments.begin(), "calibrate");
    ChildProcess run = start(std::move(arguments));
    EXPECT_EQ(run.wait(), 2);
    EXPECT_THAT(run.err(), HasSubstr(why));
    EXPECT_EQ(std::ranges::count(run.err(), '\n'), 1) << run.err();
  };
  refused({"--measured", in("measurement.json"), "--host", "xeon-e5-2650v4", "--out", in("fitted")},
          "--nic is missing");
  refused({"--measured", in("measurement.json"), "--published"}, "allowed: one of them");
  refused({"--published", "--out", in("fitted")}, "--out are of --measured");
  refused({"--measured", in("none.json"), "--nic", "connectx-4", "--host", "xeon-e5-2650v4", "--out",
           in("fitted")},
          "none.json");
  refused({"--measured", in("measurement.json"), "--nic", "connectx-44", "--host", "xeon-e5-2650v4", "--out",
           in("fitted")},
          "did you mean \"connectx-4\"?");
  EXPECT_FALSE(fs::exists(in("fitted")));
  write(in("deep.json"), measurement_of(json::array({measured({"read", "rc", 8, 5000}, 4e5, 12'500)})));
  refused({"--measured", in("deep.json"), "--nic", "connectx-4", "--host", "xeon-e5-2650v4", "--out",
           in("fitted")},
          "point 1 cannot be simulated: /workload/outstanding: out of range: 5000");
  // What the loader does not see: the run refuses it.
  PrimitivePoint read{"read", "rc"};
  read.mode = "ping_pong";
  write(in("ping_pong.json"), measurement_of(json::array({measured(read, 4e5, 2.5)})));
  ChildProcess late = start({"calibrate", "--measured", in("ping_pong.json"), "--nic", "connectx-4", "--host",
                             "xeon-e5-2650v4", "--out", in("fitted")});
  EXPECT_EQ(late.wait(), 2);
  EXPECT_THAT(late.err(), testing::StartsWith(in("ping_pong.json") + ":"));
  EXPECT_THAT(late.err(),
              HasSubstr(": point 1 cannot be simulated: /workload/mode: ping_pong is for WRITEs"));
  json profile = calibration::load_profile("xeon-e5-2650v4", calibration::ProfileKind::kHost);
  profile["name"] = "connectx-4-measured";
  write(in("host.json"), profile);
  refused({"--measured", in("measurement.json"), "--nic", "connectx-4", "--host", in("host.json"), "--out",
           in("fitted")},
          "neither the other's with \"-measured\" behind it");
  // A point that the machine cannot do: nothing is left that looks like a result.
  PrimitivePoint datagram{"send", "ud", 8192};
  write(in("measurement.json"), measurement_of(json::array({measured(datagram, 4e5, 2.5)})));
  ChildProcess run = calibrate();
  EXPECT_EQ(run.wait(), 2);
  EXPECT_THAT(run.err(), testing::ContainsRegex("measurement.json:[0-9]+:[0-9]+: point 1"));
  EXPECT_FALSE(fs::exists(in("fitted/nic.json")));
}

}  // namespace
}  // namespace verbtwin::tools
