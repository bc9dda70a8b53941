#include "tools/report/plot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "backend/temporary_directory.hpp"
#include "calibration/experiment.hpp"
#include "tools/report/report_plots.hpp"
#include "tools/report/sweep_plot.hpp"
#include "tools/tests/child_process_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

class PlotTest : public testing::Test {
 protected:
  TemporaryDirectory made_;
  const fs::path directory_ = made_.path();
};

Panel two_curves() {
  return {
      "title", "x", "y", {{"one", {{1, 2}, {2, 4}}, 0, false}, {"other", {{1, 3}, {2, NAN}}, 1, true}}, {}};
}

TEST_F(PlotTest, GnuplotDrawsCurvesAndBars) {
  Panel bars = two_curves();
  bars.categories = {"a", "b", "c"};
  EXPECT_EQ(draw(plot_script({two_curves(), bars, bars}), directory_ / "x.svg"), "");
  const std::string svg = read_text(directory_ / "x.svg");
  EXPECT_THAT(svg, HasSubstr("<svg"));
  EXPECT_THAT(svg, HasSubstr("other"));
}

TEST_F(PlotTest, AUsersNamesAreTextAndNothingElse) {
  const std::string marker = (directory_ / "marker").string();
  Panel panel = two_curves();
  panel.title = "`touch " + marker + "`' \nsystem('touch " + marker + "')\n#";
  panel.x_label = "@x \"`touch " + marker + "`";
  panel.curves[0].name = "<script>&'; system(\"touch " + marker + "\")";
  panel.categories = {"EOD\n!touch " + marker,
                      "no\xef\xbf\xbf"
                      "character"};
  EXPECT_EQ(draw(plot_script({panel}), directory_ / "x.svg"), "");
  EXPECT_FALSE(fs::exists(marker));
  const std::string svg = read_text(directory_ / "x.svg");
  EXPECT_THAT(svg, HasSubstr("&lt;script"));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, HasSubstr("no character")) << "U+FFFF, which would be no XML";
}

/// gnuplot does not know a quote that is doubled at the beginning of a text.
TEST_F(PlotTest, QuotesAreApostrophes) {
  for (const char* name : {"'quoted' name", "it''s", "'", "''"}) {
    Panel panel = two_curves();
    panel.title = panel.curves[0].name = name;
    const fs::path svg = directory_ / "quoted.svg";
    EXPECT_EQ(draw(plot_script({panel}), svg), "") << name;
    EXPECT_TRUE(fs::exists(svg)) << name;
    fs::remove(svg);
  }
}

TEST_F(PlotTest, SaysWhyThereIsNone) {
  EXPECT_THAT(draw("no such command\n", directory_ / "x.svg"), HasSubstr("gnuplot failed (1)"));
  EXPECT_THAT(draw(plot_script({two_curves()}), directory_ / "nowhere" / "x.svg"), HasSubstr("nowhere"));
  const std::string path = std::getenv("PATH");
  setenv("PATH", directory_.c_str(), 1);
  const std::string failure = draw(plot_script({two_curves()}), directory_ / "x.svg");
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(failure, "gnuplot is not installed (Debian: gnuplot-nox)");
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST(PlotScript, IsLogarithmicFrom32TimesOn) {
  Panel panel = two_curves();
  EXPECT_THAT(plot_script({panel}), Not(HasSubstr("set logscale x 2")));
  panel.curves[0].points.emplace_back(32, 1);
  EXPECT_THAT(plot_script({panel}), HasSubstr("set logscale x 2"));
  panel.curves[0].points.emplace_back(0, 1);
  EXPECT_THAT(plot_script({panel}), Not(HasSubstr("set logscale x 2")));
}

TEST(PlotScript, LeavesRoomForLongNamesAndSlantedCategories) {
  Panel panel = two_curves();
  EXPECT_THAT(plot_script({panel}), HasSubstr("set key maxcols 2\n"));
  panel.curves[0].name = std::string(40, 'n');
  EXPECT_THAT(plot_script({panel}), HasSubstr("set key maxcols 1\n"));
  panel.title = "rate";
  panel.x_label = "protocol";
  EXPECT_THAT(plot_script({panel}), HasSubstr("set title 'rate'\nset xlabel 'protocol'"));
  panel.categories = {"farm", "drtmh, with all of its options and a location cache"};
  EXPECT_THAT(plot_script({panel}), HasSubstr("set title 'rate by protocol'\nset xlabel ''"));
  EXPECT_THAT(plot_script({panel}), HasSubstr("set xtics rotate by -30"));
  panel.categories = {"farm", "drtmh"};
  EXPECT_THAT(plot_script({panel}), HasSubstr("set title 'rate'\nset xlabel 'protocol'")) << "room for both";
  EXPECT_THAT(plot_script({panel}), HasSubstr("set xtics norotate"));
}

TEST_F(PlotTest, HollowPointsStandOutAndTheLegendSaysWhatTheyAre) {
  Panel panel = two_curves();
  panel.hollow_means = "hollow: with a warning";
  EXPECT_THAT(plot_script({panel}), Not(HasSubstr("hollow"))) << "there are none";
  panel.curves[1].hollow = {true};
  Panel bars = panel;
  bars.categories = {"a", "b", "c"};
  bars.curves[0].hollow = {true, true};  // all of them
  const std::string script = plot_script({panel, bars});
  EXPECT_THAT(script, HasSubstr("$p0c1h << EOD\n1 3\nEOD\n"));
  EXPECT_THAT(script, Not(HasSubstr("$p0c0h")));
  EXPECT_THAT(script, HasSubstr("$p1c0 << EOD\nNaN NaN\nEOD\n$p1c0h << EOD\n0.8 2\n1.8 4\nEOD\n"));
  EXPECT_EQ(draw(script, directory_ / "x.svg"), "");
  EXPECT_THAT(read_text(directory_ / "x.svg"), HasSubstr("hollow: with a warning"));
}

SweepRow row(const std::string& protocol, int coroutines, double per_s, double p50_us) {
  const nlohmann::json scenario = {{"name", "s"},
                                   {"protocol", {{"name", protocol}}},
                                   {"cluster", {{"coroutines", coroutines}, {"nodes", 2}}}};
  return {{{"cluster.coroutines", coroutines}, {"protocol.name", protocol}, {"run.measure_us", coroutines}},
          {{"scenario", scenario}, {"committed_per_s", per_s}, {"latency_us", {{"p50", p50_us}}}}};
}

TEST(SweepPlot, DrawsLatencyOverThroughputWhereLoadVaries) {
  const auto panels =
      sweep_panels({row("a", 1, 1e6, 5), row("a", 8, 4e6, 9), row("b", 1, 2e6, 4), row("b", 8, 8e6, 7)});
  ASSERT_EQ(panels.size(), 2U);
  ASSERT_EQ(panels[0].curves.size(), 2U);
  EXPECT_EQ(panels[0].x_label, "coroutines");
  EXPECT_EQ(panels[0].y_label, "M/s");
  EXPECT_EQ(panels[0].curves[1].name, "b");
  EXPECT_THAT(panels[0].curves[1].points, ElementsAre(Pair(1, 2), Pair(8, 8)));
  EXPECT_THAT(panels[1].curves[0].points, ElementsAre(Pair(1, 5), Pair(4, 9)));
}

TEST(SweepPlot, DrawsBarsWhereNamesVary) {
  const auto panels = sweep_panels({row("a", 1, 1e3, 5), row("b", 1, 2e3, 4)});
  ASSERT_EQ(panels.size(), 2U);
  EXPECT_THAT(panels[0].categories, ElementsAre("a", "b"));
  EXPECT_EQ(panels[0].y_label, "k/s");
  ASSERT_EQ(panels[0].curves.size(), 1U);
  EXPECT_THAT(panels[0].curves[0].points, ElementsAre(Pair(0, 1), Pair(1, 2)));
  EXPECT_TRUE(sweep_panels({row("a", 1, 1e3, 5)}).empty());
  EXPECT_TRUE(sweep_panels({row("a", 1, 0, 0), row("b", 1, 0, 0)}).empty()) << "nothing came to its end";
}

TEST(SweepPlot, WhereNothingEndedThereIsNoLatency) {
  const auto panels = sweep_panels({row("a", 1, 0, 0), row("a", 8, 4e6, 9)});
  ASSERT_EQ(panels.size(), 2U);
  EXPECT_EQ(panels[0].curves[0].points[0], std::pair(1.0, 0.0));
  EXPECT_TRUE(std::isnan(panels[1].curves[0].points[0].second));
}

TEST(SweepPlot, NamesThatEndAlikeAreTwoCategories) {
  const std::string end(60, 'x');
  const auto panels = sweep_panels({row("a" + end, 1, 1e3, 5), row("b" + end, 1, 2e3, 4)});
  ASSERT_EQ(panels.size(), 2U);
  EXPECT_EQ(panels[0].categories.size(), 2U);
  EXPECT_THAT(panels[0].curves[0].points, ElementsAre(Pair(0, 1), Pair(1, 2)));
}

TEST(SweepPlot, SaysOfANumberWhatItIsAndOfAnObjectWhatWasWritten) {
  const auto with_workload = [](int nodes, const nlohmann::json& written, const std::string& filled_in) {
    SweepRow one = row("a", 1, 1e3, 5);
    one.settings = {{"cluster.nodes", nodes}, {"workload", written}};
    one.result["scenario"]["cluster"]["nodes"] = nodes;
    one.result["scenario"]["workload"] = {{"name", written.at("name")}, {"filled_in", filled_in}};
    return one;
  };
  const std::string much(500, 'x');
  const nlohmann::json tatp = {{"name", "tatp"}}, bank = {{"name", "smallbank"}, {"hot_fraction", 0.1}};
  const auto panels = sweep_panels({with_workload(3, tatp, much), with_workload(3, bank, much),
                                    with_workload(4, tatp, much), with_workload(4, bank, much)});
  ASSERT_EQ(panels.size(), 2U);
  EXPECT_THAT(panels[0].categories, ElementsAre("tatp", R"({"hot_fraction":0.1,"name":"smallbank"})"));
  ASSERT_EQ(panels[0].curves.size(), 2U);
  EXPECT_EQ(panels[0].curves[0].name, "nodes 3");
  EXPECT_EQ(panels[0].curves[1].name, "nodes 4");
}

TEST(SweepPlot, DrawsOneChangeAfterAnotherAsABarForEach) {
  const auto of = [](const std::string& execution, int mib, const std::string& log, bool outstanding) {
    SweepRow one = row("a", 1, 1e6, 5);
    one.settings = {{"protocol.execution", execution},
                    {"protocol.cache.mib", mib},
                    {"protocol.log", log},
                    {"protocol.outstanding", outstanding}};
    one.result["scenario"]["protocol"] = {
        {"execution", execution}, {"cache", {{"mib", mib}}}, {"log", log}, {"outstanding", outstanding}};
    return one;
  };
  const SweepRow base = of("rpc", 0, "rpc", true), read = of("one_sided", 0, "rpc", true);
  const SweepRow both = of("one_sided", 300, "one_sided", true),
                 last = of("one_sided", 300, "one_sided", false);
  const auto panels = sweep_panels({base, read, both, last});
  ASSERT_EQ(panels.size(), 2U);
  EXPECT_THAT(panels[0].categories,
              ElementsAre("base", "+execution one_sided", "+cache.mib 300, 1 more", "no outstanding"));
  ASSERT_EQ(panels[0].curves.size(), 1U);
  EXPECT_EQ(panels[0].curves[0].points.size(), 4U);
  EXPECT_EQ(sweep_panels({base, read, both, base})[0].curves.size(), 2U) << "one that changes back";
  EXPECT_THAT(sweep_panels({base, read})[0].categories, ElementsAre("rpc", "one_sided"));
}

TEST(SweepPlot, PointsCutShortAreLeftOutAndThoseWithAWarningAreHollow) {
  SweepRow cut = row("b", 8, 8e6, 7), warned = row("b", 1, 2e6, 4);
  cut.result["partial"] = true;
  warned.result["warning"] = {"the rate is not steady"};
  const auto panels = sweep_panels({row("a", 1, 1e6, 5), row("a", 8, 4e6, 9), warned, cut});
  ASSERT_EQ(panels.size(), 2U);
  for (const Panel& panel : panels) {
    ASSERT_EQ(panel.curves.size(), 2U);
    EXPECT_THAT(panel.curves[0].hollow, ElementsAre(false, false));
    EXPECT_EQ(panel.curves[1].points.size(), 1U);
    EXPECT_THAT(panel.curves[1].hollow, ElementsAre(true));
    EXPECT_EQ(panel.hollow_means, "hollow: with a warning");
  }
  EXPECT_TRUE(sweep_panels({row("a", 1, 1e6, 5), cut}).empty());
}

TEST(SweepPlot, LegendsSayWhatIsOnAndNothingThatFollows) {
  const auto of = [](const std::string& protocol, const nlohmann::json& batching, const nlohmann::json& ack) {
    SweepRow one = row(protocol, 1, 1e6, 5);
    one.settings = {{"protocol.batching", batching}, {"protocol.ack", ack}, {"protocol.name", protocol}};
    for (const char* field : {"batching", "ack"}) {
      const nlohmann::json& value = field == std::string("ack") ? ack : batching;
      if (!value.is_null()) one.result["scenario"]["protocol"][field] = value;
    }
    return one;
  };
  const auto names = [](std::vector<SweepRow> rows) {
    std::vector<SweepRow> loads;
    for (const SweepRow& one : rows) {
      for (const int coroutines : {1, 8}) {
        loads.push_back(one);
        loads.back().settings.emplace_back("cluster.coroutines", coroutines);
        loads.back().result["scenario"]["cluster"]["coroutines"] = coroutines;
      }
    }
    std::vector<std::string> all;
    const std::vector<Panel> panels = sweep_panels(loads);
    for (const Curve& curve : panels.front().curves) all.push_back(curve.name);
    return all;
  };
  EXPECT_THAT(names({of("farm", false, false), of("drtmh", true, true)}), ElementsAre("farm", "drtmh"));
  EXPECT_THAT(names({of("farm", false, nullptr), of("farm", true, nullptr), of("farm", true, true)}),
              ElementsAre("farm", "farm, batching", "farm, batching, ack"));
  EXPECT_THAT(names({of("a", nullptr, 1), of("a", true, 1), of("b", true, "ud_send")}),
              ElementsAre("a, ack 1", "a, batching, ack 1", "b, batching, ud_send"));
  EXPECT_THAT(names({of("a", nullptr, 1), of("a", false, 1)}),
              ElementsAre("protocol a, batching null, ack 1", "protocol a, batching false, ack 1"))
      << "two curves";
  SweepRow off = of("a", false, 1), on = of("a", true, 1);
  for (SweepRow* one : {&off, &on}) one->settings.resize(1);
  EXPECT_THAT(names({off, on}), ElementsAre("no batching", "batching"));
}

calibration::Experiment experiment(const std::vector<std::pair<std::string, std::string>>& points) {
  calibration::Experiment e;
  e.name = "an experiment";
  for (const auto& [series, x] : points) {
    calibration::Point point;
    point.series = series;
    point.x = x;
    point.published = 2;
    e.points.push_back(point);
  }
  return e;
}

TEST(ReportPlots, DrawCurvesOverNumbersAndBarsOverNames) {
  std::vector<calibration::Prediction> predictions(4);
  for (auto& prediction : predictions) prediction.value = 3;
  const auto curves =
      experiment_panels(experiment({{"a", "1"}, {"a", "2"}, {"b", "1"}, {"b", "2"}}), predictions);
  ASSERT_EQ(curves.size(), 1U);
  ASSERT_EQ(curves[0].curves.size(), 4U);
  EXPECT_THAT(curves[0].curves[2].points, ElementsAre(Pair(1, 2), Pair(2, 2)));
  EXPECT_THAT(curves[0].curves[3].points, ElementsAre(Pair(1, 3), Pair(2, 3)));
  const auto bars =
      experiment_panels(experiment({{"a", "base"}, {"a", "+x"}, {"b", "base"}, {"b", "+x"}}), predictions);
  ASSERT_EQ(bars.size(), 2U);
  EXPECT_THAT(bars[1].categories, ElementsAre("base", "+x"));
  EXPECT_EQ(experiment_panels(experiment({{"a", ""}, {"b", ""}, {"c", ""}, {"d", ""}}), predictions).size(),
            1U);
  EXPECT_TRUE(experiment_panels(experiment({{"a", "1"}, {"a", "2"}}), predictions).empty());
}

}  // namespace
}  // namespace verbtwin::tools
