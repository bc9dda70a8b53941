// Planning: which runs decide, and what is answered.
#include "tools/sweeps/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json result_with(double committed_per_s, double p99_us = 10) {
  return {{"committed_per_s", committed_per_s},
          {"latency_us", {{"p99", p99_us}}},
          {"bottleneck", {{"resource", "nic_recv"}}}};
}

/// Without its columns.
std::string flat(const std::string& text) {
  std::string words;
  for (const char c : text) {
    if (c != ' ' && c != '\n') words += c;
    if ((c == ' ' || c == '\n') && !words.ends_with(' ')) words += ' ';
  }
  return words;
}

class Plan : public testing::Test {
 protected:
  using ResultOf = std::function<json(int nodes, std::size_t seed)>;

  /// Searched to its end, from 3 machines on; `seed` counts from 0.
  const Alternative& add(const ResultOf& result_of, int high = 64, Alternative::Settings settings = {}) {
    Alternative alternative(std::move(settings), SizeSearch(goals_, 3, high));
    std::set<std::pair<int, std::size_t>> ran;
    for (auto runs = alternative.next(); !runs.empty(); runs = alternative.next()) {
      for (const auto& [nodes, seed] : runs) {
        if (!ran.emplace(nodes, seed).second) {
          ADD_FAILURE() << nodes << " again";
          return alternatives_.emplace_back(std::move(alternative));
        }
        alternative.add(nodes, result_of(nodes, seed));
      }
    }
    return alternatives_.emplace_back(std::move(alternative));
  }
  /// An alternative whose rate and latency are in proportion to its machines.
  void add(const std::string& protocol, double per_node, double p99_us_per_node) {
    add([&](int nodes, std::size_t) { return result_with(per_node * nodes, p99_us_per_node * nodes); }, 64,
        {{"protocol.name", protocol}});
  }
  std::string text(int high = 64) const { return render_plan(alternatives_, goals_, 3, high); }
  /// Of the first.
  json alternative_json() const { return plan_json(alternatives_, goals_, 3, 64).at("alternatives")[0]; }

  std::vector<Goal> goals_ = {parse_goal("committed_per_s>=100"), parse_goal("latency_us.p99<=40")};
  std::vector<Alternative> alternatives_;
};

TEST_F(Plan, WhatIsMissedByAHairIsTold) {
  goals_ = {parse_goal("committed_per_s>=100")};
  add("near", 9.998, 1);  // 99.98/s with ten machines
  EXPECT_THAT(render_plan(alternatives_, goals_, 3, 64), HasSubstr("100/s less 0.02 %"));
}

TEST_F(Plan, TheFewestMachinesThatMeetAllGoalsWin) {
  add("slow", 5, 1);
  add("late", 20, 10);  // five machines, 50 us
  add("good", 10, 2);
  add("small", 0.5, 1);
  EXPECT_EQ(best_of(alternatives_, goals_), 2U);
  EXPECT_EQ(render_plan(alternatives_, goals_, 3, 64),
            "or           protocol=slow: 20 machines: committed_per_s 100/s, latency_us.p99\n"
            "             20.0 us, limited by nic_recv; with 19, committed_per_s is 95/s\n"
            "not          protocol=late: 5 machines reach the rate, and latency_us.p99 is\n"
            "             50.0 us; with 12, the most tried, latency_us.p99 is 120 us\n"
            "smallest     protocol=good: 10 machines: committed_per_s 100/s, latency_us.p99\n"
            "             20.0 us, limited by nic_recv; with 9, committed_per_s is 90/s\n"
            "not          protocol=small: at 64 machines committed_per_s is 32/s,\n"
            "             latency_us.p99 is 64.0 us\n");
  const json plan = plan_json(alternatives_, goals_, 3, 64);
  EXPECT_EQ(plan.at("best"), 2);
  EXPECT_EQ(plan.at("alternatives")[2].at("nodes"), 10);
  EXPECT_EQ(plan.at("alternatives")[1].at("nodes"), 5);
  EXPECT_EQ(plan.at("alternatives")[1].at("missed"), json::array({"latency_us.p99"}));
  EXPECT_EQ(plan.at("alternatives")[3].at("nodes"), nullptr);
}

TEST_F(Plan, OfTwoOfASizeTheFasterWins) {
  add("slower", 10, 1);
  add("faster", 11, 1);
  add("as fast", 11, 1);
  ASSERT_EQ(alternatives_[0].nodes(), alternatives_[1].nodes());
  EXPECT_EQ(best_of(alternatives_, goals_), 1U);
}

TEST_F(Plan, WhatIsNotSearchedToTheEndIsSaid) {
  add("good", 10, 2);
  alternatives_.emplace_back(Alternative::Settings{{"protocol.name", "begun"}}, SizeSearch(goals_, 3, 64));
  const std::string text = render_plan(alternatives_, goals_, 3, 64);
  EXPECT_THAT(text,
              HasSubstr("\ncut off      protocol=begun: the search had not come to its end\nPARTIAL: "));
  EXPECT_EQ(plan_json(alternatives_, goals_, 3, 64).at("partial"), true);
  alternatives_.pop_back();
  EXPECT_EQ(plan_json(alternatives_, goals_, 3, 64).at("partial"), false);
  EXPECT_THAT(render_plan(alternatives_, goals_, 3, 64), testing::Not(HasSubstr("PARTIAL")));
}

TEST_F(Plan, WhereOtherSeedsAreCutOffTheSizeIsSaid) {
  Alternative alternative({}, SizeSearch(goals_, 10, 64));
  alternative.add(10, result_with(100));
  alternatives_ = {alternative};
  EXPECT_THAT(text(),
              testing::StartsWith("cut off      10 machines by one seed: the others had not all run\n"));
  EXPECT_EQ(alternative_json().at("nodes"), nullptr);
}

/// Of a cluster each of whose machines does so much of the load that is offered to all.
json result_of_load(double offered_per_s, double per_s) {
  const double done_per_s = std::min(offered_per_s, per_s);
  json result = result_with(0.9 * done_per_s);
  result["user_aborts"] = 0.1 * done_per_s;
  result["committed"] = 0.9 * done_per_s;
  result["window_us"] = 1e6;
  result["scenario"]["run"]["offered_per_s"] = offered_per_s;
  if (done_per_s >= offered_per_s) result["bottleneck"]["resource"] = "offered_load";
  return result;
}

TEST_F(Plan, ALatencyIsOfAClusterThatDoesTheLoad) {
  goals_ = {parse_goal("latency_us.p99<=40")};
  const Alternative& alternative = add(
      [&](int nodes, std::size_t) {
        const json result = result_of_load(1000, 10 * nodes);
        EXPECT_EQ(missed(goals_, result).empty(), nodes >= 100) << nodes;
        return result;
      },
      256);
  EXPECT_EQ(alternative.nodes(), 100);
  EXPECT_LE(alternative.results().size(), 6U);
  EXPECT_THAT(text(), testing::StartsWith(
                          "smallest     100 machines: latency_us.p99 10.0 us, limited by offered_load;\n"
                          "             with 99, 99.0 % of the offered load is done\n"));
}

/// All of the load is done, of which by chance a little less came than is asked for.
TEST_F(Plan, ARateBelowTheGoalIsAllThatCame) {
  goals_ = {parse_goal("committed_per_s>=895")};
  add(
      [](int nodes, std::size_t) {
        json result = result_of_load(1000, 10 * nodes);
        if (nodes >= 100) result["committed_per_s"] = 890;
        return result;
      },
      256);
  EXPECT_THAT(
      render_plan(alternatives_, goals_, 3, 256),
      testing::StartsWith("smallest     100 machines: committed_per_s 890/s (all that came), limited by\n"));
}

TEST_F(Plan, ARateMayBeLessThanTheLoad) {
  goals_ = {parse_goal("committed_per_s>=360")};
  add([](int nodes, std::size_t) { return result_of_load(1000, 10 * nodes); }, 64);
  EXPECT_EQ(render_plan(alternatives_, goals_, 3, 64),
            "smallest     40 machines: committed_per_s 360/s, limited by nic_recv; with 39,\n"
            "             committed_per_s is 351/s\n");
}

/// What comes in a window is chance: a hundredth less was asked for than is to be expected.
json result_of_chance(int nodes) {
  json result = result_of_load(1000, 10 * nodes);
  for (const char* key : {"committed", "user_aborts", "committed_per_s"})
    result[key] = 0.99 * result[key].get<double>();
  return result;
}

TEST_F(Plan, WhoDoesTheLoadReachesItsRateHoweverManyCome) {
  goals_ = {parse_goal("committed_per_s>=900")};
  const Alternative& alternative = add([](int nodes, std::size_t) { return result_of_chance(nodes); }, 256);
  EXPECT_EQ(alternative.nodes(), 100);
  EXPECT_EQ(plan_json(alternatives_, goals_, 3, 256).at("alternatives")[0].at("missed"), json::array());
}

TEST_F(Plan, ARateThatNoLoadLeavesIsNotLookedFor) {
  goals_ = {parse_goal("committed_per_s>=950")};
  const Alternative& alternative = add([](int nodes, std::size_t) { return result_of_chance(nodes); }, 4096);
  EXPECT_LE(alternative.results().size(), 5U);
  EXPECT_THAT(render_plan(alternatives_, goals_, 3, 4096),
              testing::ContainsRegex("which is all of\n? *the\n? *load: 10.0 %"));
}

/// Of 1,000 that are expected some hundred may be missing by chance, of a million a few thousand.
TEST_F(Plan, ChanceIsTheLessTheMoreAreExpected) {
  goals_ = {parse_goal("committed_per_s>=900")};
  const auto meets = [&](double window_us, double share) {
    json result = result_of_load(1000, 1000);
    result["window_us"] = window_us;
    for (const char* key : {"committed", "user_aborts"})
      result[key] = share * result[key].get<double>() * window_us / 1e6;
    result["committed_per_s"] = share * 900;
    return missed(goals_, result).empty();
  };
  EXPECT_TRUE(meets(1e6, 0.92));
  EXPECT_FALSE(meets(1e6, 0.90));
  EXPECT_FALSE(meets(1e9, 0.97));
  EXPECT_TRUE(meets(1e9, 0.985));
}

TEST_F(Plan, WhereTooFewCameItIsSaid) {
  goals_ = {parse_goal("committed_per_s>=880")};
  json result = result_of_load(1000, 1000);
  for (const char* key : {"committed", "user_aborts", "committed_per_s"})
    result[key] = 0.8 * result[key].get<double>();
  ASSERT_EQ(add([&](int, std::size_t) { return result; }).results().size(), 1U);
  EXPECT_THAT(
      render_plan(alternatives_, goals_, 3, 64),
      testing::StartsWith("not          at 3 machines committed_per_s is 720/s: 800 of 1000 expected came\n"
                          "             to their end; lengthen run.measure_us\n"));
}

TEST_F(Plan, WhereNoClusterDoesTheLoadNoneIsAnswered) {
  goals_ = {parse_goal("latency_us.p99<=40")};
  add([](int nodes, std::size_t) { return result_of_load(1000, 10 * nodes); }, 64);
  EXPECT_EQ(plan_json(alternatives_, goals_, 3, 64).at("best"), nullptr);
  EXPECT_THAT(render_plan(alternatives_, goals_, 3, 64),
              HasSubstr("at 64 machines 64.0 % of the offered load is done"));
}

/// 11 machines meet the goal with the scenario's own seed by chance, 12 do with most seeds, and 13 with all.
json result_by_chance(int nodes, std::size_t seed) {
  const bool late = nodes < 11 || (nodes == 11 && seed > 0) || (nodes == 12 && seed == 2);
  json result = result_with(nodes, late ? 44 - static_cast<double>(nodes) / 4 : 39);
  result["scenario"]["run"]["seed"] = 7 + seed;
  return result;
}

TEST_F(Plan, WhatMostSeedsSayDecides) {
  goals_ = {parse_goal("committed_per_s>=8"), parse_goal("latency_us.p99<=40")};
  const Alternative& alternative = add(result_by_chance);
  EXPECT_EQ(alternative.nodes(), 12);
  EXPECT_EQ(alternative.met(11), 1U);
  EXPECT_THAT(text(),
              testing::StartsWith("smallest     12 machines: committed_per_s 12/s, latency_us.p99 39.0 us"));
  EXPECT_THAT(flat(text()),
              HasSubstr("with 11, latency_us.p99 is 41.2 us (seed 8); within chance, 1 of 3 seeds "
                        "meets the goals with 11 machines, 2 with 12: lengthen run.measure_us"));
  const json one = alternative_json();
  EXPECT_EQ(one.at("nodes"), 12);
  EXPECT_EQ(one.at("missed"), json::array());
  EXPECT_EQ(one.at("runs").size(), alternative.results().size());
  EXPECT_EQ(one.at("other_seeds").size(), 2 * one.at("seeds").size());
  EXPECT_THAT(one.at("seeds"), testing::Contains(json({{"nodes", 11}, {"runs", 3}, {"met", 1}})));
}

TEST_F(Plan, ASmallerOneThatMostSeedsAreForIsTaken) {
  goals_ = {parse_goal("committed_per_s>=98")};
  add([](int nodes, std::size_t seed) {
    return result_with(10 * nodes - (nodes == 10 && seed == 0 ? 3 : 0));
  });
  EXPECT_EQ(alternatives_[0].nodes(), 10);
  EXPECT_THAT(flat(text()), HasSubstr("committed_per_s 100/s (seed "));
  EXPECT_THAT(flat(text()),
              HasSubstr("; within chance, 2 of 3 seeds meet the goals with 10 machines: lengthen"));
}

TEST_F(Plan, WhereSeedsAgreeNothingIsSaidOfThem) {
  add("good", 10, 2);
  EXPECT_EQ(alternatives_[0].results().at(10).size(), 3U);
  EXPECT_EQ(alternatives_[0].results().at(9).size(), 3U);
  EXPECT_THAT(text(), testing::Not(HasSubstr("seed")));
}

/// Seeds are for the answer: who misses the goals has none.
TEST_F(Plan, AnAnswerThatMostSeedsMissIsNone) {
  goals_ = {parse_goal("latency_us.p99<=40")};
  const Alternative& alternative = add(
      [](int nodes, std::size_t seed) {
        json result = result_with(nodes, nodes == 3 && seed == 0 ? 39 : 80);
        result["scenario"]["run"]["seed"] = seed;
        return result;
      },
      64);
  EXPECT_EQ(best_of(alternatives_, goals_), std::nullopt);
  EXPECT_EQ(alternative.nodes(), 3);
  EXPECT_EQ(alternative_json().at("missed"), json::array({"latency_us.p99"}));
  EXPECT_THAT(flat(text()), HasSubstr("with 3 machines latency_us.p99 is 80.0 us (seed 1)"));
  EXPECT_THAT(flat(text()), HasSubstr("1 of 3 seeds meets the goals with 3 machines"));
}

TEST_F(Plan, WhatWasPassedOverIsSaid) {
  goals_ = {parse_goal("committed_per_s>=8"), parse_goal("latency_us.p99<=20")};
  add([](int nodes, std::size_t) { return result_with(nodes, nodes < 16 ? 60 : 19); });
  EXPECT_EQ(alternatives_[0].nodes(), 16);
  EXPECT_THAT(flat(text()), testing::StartsWith("found 16 machines: "));
  EXPECT_THAT(flat(text()), HasSubstr("; 9 to 11, 13 to 14 were not tried"));
  EXPECT_EQ(alternative_json().at("not_tried"),
            json::array({{{"from", 9}, {"to", 11}}, {{"from", 13}, {"to", 14}}}));
}

TEST_F(Plan, ARateThatFallsAgainIsNoneThatIsReached) {
  goals_ = {parse_goal("committed_per_s>=110"), parse_goal("latency_us.p99<=20")};
  add([](int nodes, std::size_t) {
    return result_with(nodes <= 13 ? 10.0 * nodes : 90, nodes < 16 ? 40 : 12);
  });
  EXPECT_EQ(alternatives_[0].nodes(), 11) << text();
  EXPECT_EQ(alternative_json().at("missed"), json::array({"latency_us.p99"}));
  EXPECT_THAT(flat(text()), HasSubstr("not 11 machines reach the rate, and latency_us.p99 is 40.0 us"));
}

TEST_F(Plan, APercentileOfAFewTransactionsIsWarnedOf) {
  goals_ = {parse_goal("latency_us.p99<=40"), parse_goal("latency_us.p999<=60")};
  const auto warned = [&](std::uint64_t committed) {
    alternatives_.clear();
    json result = result_with(1, 10);
    result["committed"] = committed;
    result["latency_us"]["p999"] = 20;
    add([&](int, std::size_t) { return result; });
    const std::string all = flat(text());
    EXPECT_EQ(alternative_json().at("warnings").size(), all.find("* warning") == all.npos ? 0U : 1U);
    return all;
  };
  EXPECT_THAT(warned(2500),
              HasSubstr("* warning latency_us.p999 is of 2,500 transactions, of which 2 took longer"));
  EXPECT_THAT(warned(30'000), testing::Not(HasSubstr("warning")));
}

TEST_F(Plan, NoneIsSaid) {
  add("small", 0.5, 0.1);
  EXPECT_EQ(best_of(alternatives_, goals_), std::nullopt);
  EXPECT_THAT(render_plan(alternatives_, goals_, 3, 64),
              HasSubstr("no cluster of 3 to 64 machines meets the goals\n"));
  EXPECT_EQ(plan_json(alternatives_, goals_, 3, 64).at("best"), nullptr);
}

}  // namespace
}  // namespace verbtwin::tools
