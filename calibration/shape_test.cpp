// What a series' shape is, whatever order its points come in.
#include "calibration/shape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace verbtwin::calibration {
namespace {

/// Of one series; `predicted` is half of what is published but at 8.
std::vector<Knee> knees_of(const std::vector<std::pair<const char*, double>>& points) {
  Experiment experiment;
  std::vector<Prediction> predictions;
  for (const auto& [x, published] : points) {
    Point point;
    point.x = x;
    point.published = published;
    experiment.points.push_back(point);
    Prediction prediction;
    prediction.value = std::string(x) == "8" ? published : published / 2;
    predictions.push_back(prediction);
  }
  return knees(experiment, predictions);
}

TEST(Knees, AreStepsOfNeighboursInXWhateverTheOrder) {
  for (const auto& points : {std::vector<std::pair<const char*, double>>{{"2", 9}, {"8", 10}, {"16", 20}},
                             std::vector<std::pair<const char*, double>>{{"16", 20}, {"2", 9}, {"8", 10}}}) {
    const std::vector<Knee> all = knees_of(points);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].published, "8 - 16");
    EXPECT_EQ(all[0].simulated, "2 - 8");
  }
}

TEST(Knees, OfNamesThereAreNone) {
  EXPECT_THAT(knees_of({{"2", 9}, {"read", 10}, {"16", 20}}), testing::IsEmpty());
}

TEST(OrderedPairs, AreOfOneSeriesOrOfOneXButNotOfBoth) {
  Experiment experiment;
  const auto add = [&](const char* series, const char* x, double published) {
    Point& point = experiment.points.emplace_back();
    point.series = series;
    point.x = x;
    point.published = published;
  };
  add("read", "8", 10);
  add("read", "8", 12);
  add("read", "16", 20);
  add("write", "16", 15);
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (const Pair& pair : ordered_pairs(experiment)) pairs.emplace_back(pair.first, pair.second);
  EXPECT_THAT(pairs, testing::UnorderedElementsAre(std::pair(0U, 2U), std::pair(1U, 2U), std::pair(3U, 2U)))
      << "not the first with the second, one point measured twice";
}

}  // namespace
}  // namespace verbtwin::calibration
