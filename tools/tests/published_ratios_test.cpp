// Sweeps beside published ratios: figure 13's factors, figures stated in texts, RAMP over RDMA's systems.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "backend/user_error.hpp"
#include "scenarios/sweep.hpp"
#include "tools/compare/factors.hpp"
#include "tools/compare/headlines.hpp"
#include "tools/compare/ramp_ratios.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/run/catalog.hpp"

namespace verbtwin::tools {
namespace {

using calibration::CsvTable;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

CsvTable table(const std::string& text) {
  return CsvTable::parse("points.csv", text, CsvTable::Kind::kPlain);
}

std::string refusal(const auto& act) {
  try {
    act();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

/// points.csv of a shipped sweep, as if its points had done 100, 200, ... transactions.
CsvTable shipped(const std::string& scenario) {
  std::vector<SweepRow> rows;
  for (const auto& point : scenarios::load_points(std::string(VERBTWIN_SOURCE_DIR "/scenarios/") + scenario,
                                                  {}, make_catalog())) {
    const double per_s = 100.0 * static_cast<double>(rows.size() + 1);
    rows.push_back(
        {point.settings,
         {{"scenario", point.scenario.resolved}, {"committed_per_s", per_s}, {"latency_us", {{"p50", 3}}}}});
  }
  return table(sweep_csv(rows));
}

TEST(Factors, TheShippedSweepHasEveryPublishedStepInItsOrder) {
  const CsvTable points = shipped("osdi18/fig13-factors.json");
  ASSERT_TRUE(varies_factors(points));
  const auto pairs = pair_factors(calibration::published_factors(), points);
  ASSERT_EQ(pairs.size(), 7U);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_NEAR(pairs[i].per_machine_mtps * 16e6, 100.0 * static_cast<double>(i + 1), 1e-6);
    EXPECT_EQ(pairs[i].latency_p50_us, 3);
  }
  EXPECT_FALSE(varies_factors(shipped("osdi18/fig14-tpcc.json")));
  EXPECT_EQ(pairs.front().published.step, "base two-sided");
  EXPECT_GT(pairs.back().published.ratio, pairs.front().published.ratio);
}

/// Columns of points.csv that the factors need, the points by what they have on.
std::string factor_points(const std::vector<std::string>& switches) {
  std::string text =
      "protocol.name,workload.name,cluster.nodes,cluster.coroutines,committed_per_s,latency_p50_us,"
      "protocol.phases.execution.primitive,protocol.phases.logging.primitive,protocol.location_cache.mib,"
      "protocol.phases.validation.lock,protocol.phases.commit.passive_ack,protocol.phases.execution."
      "outstanding\n";
  double rate = 16e6;
  for (const std::string& on : switches) {
    const auto pick = [&](std::size_t i, const char* off, const char* other) {
      return on[i] == '1' ? other : off;
    };
    text += fmt::format("drtmh,tpcc,16,1,{},10,{},{},{},{},{},{}\n", rate, pick(0, "rpc", "one_sided"),
                        pick(1, "rpc", "one_sided"), pick(2, "0", "300"), pick(3, "rpc", "cas"),
                        pick(4, "false", "true"), pick(5, "false", "true"));
    rate *= 2;
  }
  return text;
}

const std::vector<calibration::PublishedFactor> kSteps = {
    {"base two-sided", 1, 1}, {"+one-sided read", 1, 0.5}, {"+one-sided logging", 1, 1.5}};

TEST(Factors, ArePairedByWhatIsOnWhateverTheOrder) {
  const auto pairs = pair_factors(kSteps, table(factor_points({"110000", "000000", "100000"})));
  ASSERT_EQ(pairs.size(), 3U);
  EXPECT_EQ(pairs[0].per_machine_mtps, 2);
  EXPECT_EQ(pairs[1].per_machine_mtps, 4);
  EXPECT_EQ(pairs[2].per_machine_mtps, 1);
}

TEST(Factors, StepsThatAreNotThereOrTwiceAreRefused) {
  EXPECT_THAT(refusal([] {
                pair_factors(kSteps, table(factor_points({"000000", "010000", "110000"})));
              }),
              HasSubstr("no point of 1 coroutine has on what \"+one-sided read\""));
  EXPECT_THAT(refusal([] {
                pair_factors(kSteps, table(factor_points({"000000", "100000", "000000"})));
              }),
              HasSubstr("points 0 and 2 are both \"base two-sided\""));
}

TEST(Factors, PointsOfAnotherClusterAreNoSteps) {
  std::string four = factor_points({"000000", "100000", "110000", "100000"});
  four.replace(four.rfind("tpcc,16,"), 8, "tpcc,4,");
  EXPECT_EQ(pair_factors(kSteps, table(four)).size(), 3U) << "not two of one step";
  four.replace(four.find("tpcc,16,"), 8, "tpcc,4,");
  EXPECT_THAT(refusal([&] { pair_factors(kSteps, table(four)); }),
              HasSubstr("and nothing else; left out: points 0, 3 (4 machines, published with 16); see "));
}

TEST(Factors, TellErrorsAndWhichStepsGoThePublishedWay) {
  const std::string text =
      render_factors("T", pair_factors(kSteps, table(factor_points({"000000", "100000", "110000"}))));
  EXPECT_THAT(text,
              AllOf(HasSubstr("Of 2 steps 1 go the published way"),
                    HasSubstr("| +one-sided read | 0.50 | 2.00 | +300 % | -50 % | +100 % | 2.000 | 10.0 |"),
                    HasSubstr("| base two-sided | 1.00 | 1.00 | +0 % | - | - |")));
}

TEST(Headlines, ShippedSweepsHaveEveryPointThatTheyAreFor) {
  for (const char* sweep : {"fasst/smallbank.json", "fasst/tatp.json"}) {
    const CsvTable points = shipped(sweep);
    ASSERT_TRUE(has_headlines(points)) << sweep;
    EXPECT_THAT(compare_headlines(points).text, Not(HasSubstr("Not in this sweep"))) << sweep;
  }
  EXPECT_FALSE(has_headlines(shipped("osdi18/fig14-tpcc.json")));
}

constexpr const char* kTatp =
    "name,protocol.name,cluster.nodes,cluster.nic,cluster.coroutines,committed_per_s,partial\n";

TEST(Headlines, ARatioIsOfTheFastestPointsMachineForMachine) {
  const Comparison comparison =
      compare_headlines(table(std::string(kTatp) + "fasst-tatp,fasst,50,connectx-3,4,50e6,false\n"
                                                   "fasst-tatp,fasst,50,connectx-3,8,100e6,false\n"
                                                   "fasst-tatp,fasst,50,connectx-3,16,900e6,true\n"
                                                   "fasst-tatp,farm,90,connectx-3,4,90e6,false\n"
                                                   "fasst-tatp,farm,90,connectx-5,8,999e6,false\n"));
  ASSERT_EQ(comparison.values.size(), 2U);
  EXPECT_EQ(comparison.values[0].simulated, 2);
  EXPECT_EQ(comparison.values[1].simulated, 90);
  const double ratio = comparison.values[0].published, rate = comparison.values[1].published;
  EXPECT_THAT(
      comparison.text,
      AllOf(HasSubstr(fmt::format("| TATP, FaSST / FaRM, per machine | OSDI 2016 FaSST | {:.3g} x | 2 | {} |",
                                  ratio, percent_off(2, ratio))),
            HasSubstr(fmt::format("| TATP, FaRM, 90 machines | SOSP 2015 FaRM | {:.3g} Mtps | 90 | {} |",
                                  rate, percent_off(90, rate)))));
}

TEST(Headlines, WhatASweepDoesNotHaveIsSaidAndWithoutAnyItIsRefused) {
  EXPECT_THAT(
      compare_headlines(table(std::string(kTatp) + "fasst-tatp,farm,90,connectx-3,4,90e6,false\n")).text,
      HasSubstr(
          "* TATP, FaSST / FaRM, per machine: no point with protocol.name fasst, cluster.nic connectx-3"));
  EXPECT_THAT(refusal([] {
                compare_headlines(table(std::string(kTatp) + "fasst-tatp,farm,90,connectx-5,4,90e6,false\n"));
              }),
              HasSubstr("points.csv: none of its points is under the conditions of a published figure"));
}

TEST(Headlines, CallsHaveRatesAndMeanLatencies) {
  const std::string points =
      "name,workload.transport,cluster.nic,machines,operations_per_s,latency_mean_us\n"
      "rpc-key-value,rf_rpc,connectx-3,1,4e6,3\n"
      "rpc-key-value,rc_write_poll,connectx-3,1,2e6,7\n";
  const std::string text = compare_headlines(table(points)).text;
  const auto row = [](const char* what, const char* begins, std::size_t part, int simulated) {
    const auto published = calibration::published_headline(begins, part);
    return fmt::format("| {} | TPDS 2019 RF-RPC | {:.3g} {} | {} | {} |", what, published.value,
                       published.unit, simulated, percent_off(simulated, published.value));
  };
  EXPECT_THAT(text, HasSubstr(row("Jakiro (RF-RPC)", "16 B key 32 B value 95 % GET uniform", 0, 4)));
  EXPECT_THAT(text, HasSubstr(row("ServerReply, mean latency", "same: mean latency", 1, 7)));
}

constexpr const char* kRampHead =
    "name,protocol.name,workload.name,committed_per_s,protocol.transport,protocol.get,protocol.put,workload."
    "mix\n";
std::string ramp_point(const char* protocol, const char* transport, const char* get, const char* put,
                       const char* mix, int per_s) {
  return fmt::format("x,{},ycsb-groups,{},{},{},{},{}\n", protocol, per_s, transport, get, put, mix);
}
std::string ramp_points(const char* mix, int s2pl, int ipoib, int plus, int star) {
  return ramp_point("s2pl", "ipoib_tcp", "", "", mix, s2pl) +
         ramp_point("ramp-fast", "ipoib_tcp", "rpc", "rpc", mix, ipoib) +
         ramp_point("ramp-fast", "send_recv", "get_plus", "put_plus", mix, plus) +
         ramp_point("ramp-fast", "send_recv", "get_star", "put_plus", mix, star);
}

TEST(PercentOff, OfHardlyLessIsNotMinusNothing) {
  EXPECT_EQ(percent_off(0.999, 1), "+0 %");
  EXPECT_EQ(percent_off(0.99, 1), "-1 %");
}

TEST(RampRatios, StandBesideThePublishedOnes) {
  const CsvTable points =
      table(kRampHead + ramp_points("C", 50, 100, 200, 300) + ramp_points("B", 1, 4, 3, 5) +
            ramp_point("ramp-small", "ipoib_tcp", "rpc", "rpc", "C", 999));
  ASSERT_TRUE(varies_ramp_systems(points));
  const auto [title, text, panels, values] = compare_ramp(points);
  EXPECT_EQ(values.size(), 2U);
  EXPECT_EQ(title, "RAMP over RDMA: x");
  const auto ratios = calibration::published_ramp_ratios();
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_THAT(text,
                HasSubstr(fmt::format("{},PUT+ over RAMP(GET,PUT) on IPoIB | ycsb-groups, mix C | {:.2f} | "
                                      "{}.00 | {} |",
                                      i == 0 ? "GET+" : "GET*", ratios[i].ratio, i + 2,
                                      percent_off(static_cast<double>(i + 2), ratios[i].ratio))));
  }
  EXPECT_THAT(text, HasSubstr("holds at 1 of 2 workloads"));
  EXPECT_THAT(text,
              HasSubstr("* ycsb-groups, mix B: S2PL on IPoIB < GET+,PUT+ < RAMP on IPoIB < GET*,PUT+\n"));
  EXPECT_THAT(text, HasSubstr("| ycsb-groups, mix B | 1 | 4 | 3 | 5 |"));
  ASSERT_EQ(panels.size(), 1U);
  EXPECT_EQ(panels[0].categories.size(), 2U);
  EXPECT_EQ(panels[0].curves.size(), 4U);
}

TEST(RampRatios, ASystemsBestPointCounts) {
  const auto groups =
      ramp_groups(table(kRampHead + ramp_points("C", 1, 2, 3, 4) + ramp_points("C", 2, 1, 5, 3)));
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_THAT(groups[0].per_s, ElementsAre(2, 0, 2, 0, 5, 4));
}

TEST(RampRatios, MixesThatWriteMostNeedNoOrderButMeetWithoutReads) {
  const char* head =
      "name,protocol.name,workload.name,committed_per_s,protocol.transport,protocol.get,protocol.put,"
      "workload.read_ratio\n";
  const std::string text =
      compare_ramp(table(head +
                         std::string("x,ramp-fast,read-write-mix,100,send_recv,get_plus,"
                                     "put_plus,0\n") +
                         "x,ramp-fast,read-write-mix,90,send_recv,get_star,put_plus,0\n"))
          .text;
  EXPECT_THAT(text, HasSubstr("GET* is -10 % off"));
  EXPECT_THAT(text, Not(HasSubstr("holds at")));
}

TEST(RampRatios, OthersAreRefused) {
  EXPECT_FALSE(varies_ramp_systems(shipped("osdi18/fig14-tpcc.json")));
  EXPECT_THAT(refusal([] {
                compare_ramp(table(kRampHead + ramp_point("ramp-small", "send_recv", "rpc", "rpc", "C", 1)));
              }),
              HasSubstr("no point of it is a system that RAMP over RDMA compares"));
}

TEST(RampRatios, ThePublishedFilesAreRead) {
  const auto ratios = calibration::published_ramp_ratios();
  ASSERT_EQ(ratios.size(), 3U);
  for (const auto& ratio : ratios) EXPECT_GT(ratio.ratio, 1) << ratio.experiment;
  EXPECT_FALSE(ratios[0].may_be_fitted);
  EXPECT_FALSE(ratios[1].may_be_fitted);
  EXPECT_TRUE(ratios[2].may_be_fitted);
}

}  // namespace
}  // namespace verbtwin::tools
