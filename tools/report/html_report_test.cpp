#include "tools/report/html_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kHostile = R"(</title><script>alert("x")</script> & 'more')"
                                 "\xef\xbf\xbe";

json result_of(const char* scenario) {
  return simulate(load(scenario, {}), {});
}

json transactions() {
  json result = result_of(R"({
    "cluster": {"nodes": 3, "threads": 2, "coroutines": 4, "nics_per_node": 2},
    "protocol": {"name": "drtmh"}, "workload": {"name": "smallbank", "accounts_per_thread": 20},
    "run": {"warmup_us": 20, "measure_us": 200}})");
  result["simulator"] = json::object();
  return result;
}

json operations() {
  return result_of(R"({
    "cluster": {"nodes": 2, "threads": 2, "nics_per_node": 1}, "workload": {"name": "primitive"},
    "run": {"warmup_us": 20, "measure_us": 50}})");
}

/// Well-formed, and nothing in it is fetched or run.
void expect_sound(const std::string& page) {
  std::istringstream in(page);
  boost::property_tree::ptree tree;
  EXPECT_NO_THROW(boost::property_tree::read_xml(in, tree)) << page;
  for (const char* outside : {"<script", "src=", "url(", "@import", "http:", "https:", "\xef\xbf\xbe"})
    EXPECT_THAT(page, Not(HasSubstr(outside)));
}

TEST(HtmlReport, ShowsWhatARunHas) {
  const json result = transactions();
  const std::string page = html_report(result);
  expect_sound(page);
  for (const char* part : {"Where the time of the attempt that commits goes", "send_payment",
                           "Why attempts aborted", "qp_cache", "compare_swap", "PASS", "class=\"curve\"",
                           "drtmh running smallbank", "&quot;accounts_per_thread&quot;: 20"})
    EXPECT_THAT(page, HasSubstr(part));
}

/// A phase that few transactions have takes little of the time, however long it is.
TEST(HtmlReport, AShareOfTheTimeIsOverAllTransactions) {
  json result = transactions();
  result["committed"] = 1000;
  result["phases"] = {{"execution", {{"count", 1000}, {"mean_us", 9.0}, {"p50_us", 8.0}}},
                      {"logging", {{"count", 100}, {"mean_us", 10.0}, {"p50_us", 9.5}}},
                      {"commit", {{"count", 0}, {"mean_us", 0.0}, {"p50_us", 0.0}}}};
  const std::string page = html_report(result);
  EXPECT_THAT(page, HasSubstr("width:90.00%\"></i></div></td><td>9.00</td><td>8.00</td><td>100.0 %<"));
  EXPECT_THAT(page, HasSubstr("width:10.00%\"></i></div></td><td>10.0</td><td>9.50</td><td>10.0 %<"));
  EXPECT_THAT(page, Not(HasSubstr("<td>commit</td>"))) << "nobody had it";
}

TEST(HtmlReport, HasTheLoadThatWasOffered) {
  json result = transactions();
  EXPECT_THAT(html_report(result), Not(HasSubstr("offered")));
  result["scenario"]["run"]["offered_per_s"] = 4e6;
  EXPECT_THAT(html_report(result), HasSubstr("<b>4.00 M/s</b><span class=\"soft\">offered</span>"));
}

TEST(HtmlReport, OfAMicroBenchmarkHasNoTransactions) {
  json unfinished = operations();
  unfinished["checks"] = {{{"name", "finished"}, {"violations", 1}, {"examples", {"why"}}}};
  EXPECT_THAT(html_report(unfinished), HasSubstr("FAIL</b> finished: 1 violation</li>"));
  const std::string page = html_report(operations());
  expect_sound(page);
  EXPECT_THAT(page, HasSubstr("operations per machine"));
  EXPECT_THAT(page, HasSubstr("class=\"curve\""));
  for (const char* part : {"aborted", "Transactions", "PASS"}) EXPECT_THAT(page, Not(HasSubstr(part)));
}

TEST(HtmlReport, NamesAreText) {
  json result = transactions();
  for (const char* key : {"name", "description"}) result["scenario"][key] = kHostile;
  result["scenario"]["workload"]["name"] = kHostile;
  result["warning"] = {kHostile};
  result["failure"] = kHostile;
  result["partial"] = true;
  const std::string page = html_report(result);
  expect_sound(page);
  EXPECT_THAT(page, HasSubstr("Failed: &lt;/title&gt;"));
  EXPECT_THAT(page, HasSubstr("Partial: stopped"));
  std::vector<SweepRow> rows = {{{{"workload.name", kHostile}}, result, 7}};
  const std::string sweep =
      html_report(rows, rows.size(), "<?xml version='1.0'?><svg><title>drawn</title></svg>");
  expect_sound(sweep);
  EXPECT_THAT(sweep, HasSubstr("href=\"points/007/report.html\""));
  EXPECT_THAT(sweep, HasSubstr("<svg><title>drawn"));
  EXPECT_THAT(sweep, HasSubstr("PARTIAL: 0 of 1 point, and 1 cut short"));
  rows[0].result["partial"] = false;
  EXPECT_THAT(html_report(rows, 9, ""), HasSubstr("PARTIAL: 1 of 9 points<"));
  EXPECT_THAT(html_report(rows, 1, ""), Not(HasSubstr("PARTIAL")));
}

TEST(HtmlReport, RendersResultsWithHardlyAnythingInThem) {
  expect_sound(html_report(json::object()));
  expect_sound(html_report(std::vector<SweepRow>{}, 0, ""));
  json nothing_done = transactions();
  nothing_done["committed"] = 0;
  nothing_done["latency_quantiles_us"] = json::object();
  expect_sound(html_report(nothing_done));
}

}  // namespace
}  // namespace verbtwin::tools
