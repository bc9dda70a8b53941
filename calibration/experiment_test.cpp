#include "calibration/experiment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::calibration {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;
namespace fs = std::filesystem;

scenarios::Catalog catalog() {
  scenarios::Catalog c;
  json p;
  for (const char* name : {"payload_b", "outstanding"}) {
    p[name] = {{"type", "integer"}, {"minimum", 1}, {"maximum", 4096}, {"default", 8}};
  }
  p["verb"] = {{"type", "string"}, {"enum", {"read", "write"}}, {"default", "read"}};
  p["inline"] = {{"type", "boolean"}, {"default", false}};
  c.workloads.push_back({"primitive", "raw verbs", {{"properties", p}}});
  c.protocols.push_back({"none", "none", json::object()});
  c.nics = {"n"};
  c.hosts = {"h"};
  return c;
}

/// A directory with experiments/ and published/train and, to be left alone, published/validation.
class Experiments : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"experiments", "published/train", "published/validation"}) {
      fs::create_directories(root_ / folder);
    }
    write("published/train/raw.csv",
          "# source: a paper\nverb,payload_b,mops\nread,8,10\nwrite,8,20\nwrite,64,15\n");
    write("experiments/left-out.json", "[]");
    experiment_ = {{"format", "verbtwin-experiment"},
                   {"version", 1},
                   {"name", "raw"},
                   {"description", "raw verbs"},
                   {"data", "raw.csv"},
                   {"machine", {{"nic", "n"}, {"host", "h"}}},
                   {"series", {"verb"}},
                   {"x", "payload_b"},
                   {"value", {{"column", "mops"}}},
                   {"unit", "M/s"},
                   {"result", {{"pointer", "/operations_per_s"}, {"scale", 1e-6}}},
                   {"assumptions", {"a window"}},
                   {"scenario",
                    {{"cluster", {{"nodes", 2}, {"replicas", 1}}},
                     {"protocol", {{"name", "none"}}},
                     {"workload", {{"name", "primitive"}}},
                     {"run", {{"measure_us", 10}}}}},
                   {"rules",
                    {{{"set",
                       {{"workload.verb", {{"text", "verb"}}},
                        {"workload.payload_b", {{"column", "payload_b"}, {"times", 2}}}}}},
                     {{"where", {{"verb", json::array({"write"})}, {"payload_b", {{"max", 63}}}}},
                      {"set", {{"workload.inline", true}}}},
                     {{"where", {{"payload_b", 64}}}, {"set", {{"workload.outstanding", 2}}}}}}};
  }

  void write(const std::string& file, const std::string& text) { std::ofstream(root_ / file) << text; }
  ExperimentSet load_files() const {
    return load_experiments(root_ / "experiments", root_ / "published/train", catalog());
  }
  ExperimentSet load() {
    write("experiments/raw.json", experiment_.dump(2));
    return load_files();
  }
  std::string refusal_of_files() const {
    try {
      load_files();
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  }
  std::string refusal() {
    write("experiments/raw.json", experiment_.dump(2));
    return refusal_of_files();
  }

  TemporaryDirectory made_;
  const fs::path root_ = made_.path();
  json experiment_;
};

TEST_F(Experiments, RowsBecomeScenarios) {
  const ExperimentSet set = load();
  ASSERT_THAT(set.experiments, SizeIs(1));
  const auto& points = set.experiments[0].points;
  ASSERT_THAT(points, SizeIs(3));
  EXPECT_EQ(points[1].series, "write");
  EXPECT_EQ(points[1].x, "8");
  EXPECT_EQ(points[1].published, 20);
  EXPECT_EQ(points[1].place, "raw.csv:4");
  EXPECT_EQ(points[1].variants.at(0).workload.at("payload_b"), 16);
  EXPECT_EQ(points[1].variants.at(0).workload.at("inline"), true);
  EXPECT_EQ(points[2].variants.at(0).workload.at("inline"), false);
  EXPECT_EQ(points[1].variants.at(0).workload.at("outstanding"), 8);
  EXPECT_EQ(points[2].variants.at(0).workload.at("outstanding"), 2);
  EXPECT_EQ(points[0].variants.at(0).cluster.nic, "n");
}

TEST_F(Experiments, WhatAModelLacksIsSaidOfItsPoints) {
  experiment_["missing"] = {{{"where", {{"payload_b", 64}}}, {"mechanism", "a second port"}}};
  const auto points = load().experiments[0].points;
  EXPECT_EQ(points[1].missing, "");
  EXPECT_EQ(points[2].missing, "a second port");
}

TEST_F(Experiments, TheBestOverSeveralIsSeveralRuns) {
  experiment_["best_over"] = {{{"workload.outstanding", 8}}, {{"workload.outstanding", 64}}};
  const ExperimentSet set = load();
  ASSERT_THAT(set.experiments[0].points[0].variants, SizeIs(2));
  EXPECT_EQ(set.experiments[0].points[0].variants[1].workload.at("outstanding"), 64);
}

TEST_F(Experiments, EveryRowIsRunOrNamed) {
  experiment_["rows"] = {{"verb", "write"}};
  EXPECT_THAT(refusal(), HasSubstr("raw.csv:3: no experiment runs this row"));
  write("experiments/left-out.json",
        R"([{"data": "raw.csv", "rows": {"verb": "read"}, "reason": "a test"}])");
  const ExperimentSet set = load();
  ASSERT_THAT(set.left_out, SizeIs(1));
  EXPECT_EQ(set.left_out[0].reason, "a test");
}

TEST_F(Experiments, EveryMeasuredColumnIsRunOrNamed) {
  write("published/train/raw.csv",
        "# source: a paper\nverb,payload_b,mops,latency_us,note\nread,8,10,2.5,3 or so\nwrite,8,20,1.5,4\n");
  EXPECT_THAT(refusal(), HasSubstr("raw.csv: no experiment uses column \"latency_us\""));
  const auto leave_out = [](const char* column) {
    return json::array({{{"data", "raw.csv"}, {"column", column}, {"reason", "a test"}}}).dump();
  };
  write("experiments/left-out.json", leave_out("latency"));
  EXPECT_THAT(refusal(), HasSubstr("no column \"latency\""));
  write("experiments/left-out.json", leave_out("latency_us"));
  const ExperimentSet set = load();
  ASSERT_THAT(set.left_out, SizeIs(1));
  EXPECT_EQ(set.left_out[0].what, "column latency_us");
  write("experiments/left-out.json", R"([{"data": "raw.csv", "reason": "neither"}])");
  EXPECT_THAT(refusal(), HasSubstr("left-out.json:1:"));
}

TEST_F(Experiments, APublishedRateIsAboveZero) {
  write("published/train/raw.csv", "# source: a paper\nverb,payload_b,mops\nread,8,10\nwrite,8,-1\n");
  EXPECT_THAT(refusal(), HasSubstr("raw.csv:4: column \"mops\": -1; allowed: more than 0"));
}

TEST_F(Experiments, EveryNumberOfACellIsRunOrNamed) {
  write("published/train/raw.csv", "# source: a paper\nverb,payload_b,mops\nread,8,10 / 20 / 30\n");
  experiment_["value"]["part"] = 1;
  EXPECT_THAT(refusal(), HasSubstr("raw.csv:3: no experiment runs part 0 of this row"));
  const auto leave_out = [](int part) {
    return json{{"data", "raw.csv"}, {"rows", {{"verb", "read"}}}, {"part", part}, {"reason", "a test"}};
  };
  write("experiments/left-out.json", json::array({leave_out(0)}).dump());
  EXPECT_THAT(refusal(), HasSubstr("raw.csv:3: no experiment runs part 2 of this row"));
  write("experiments/left-out.json", json::array({leave_out(0), leave_out(2)}).dump());
  const ExperimentSet set = load();
  EXPECT_EQ(set.experiments[0].points[0].published, 20);
  ASSERT_THAT(set.left_out, SizeIs(2));
  EXPECT_THAT(set.left_out[0].what, HasSubstr("part 0 only"));
}

TEST_F(Experiments, MistakesAreToldWithTheirPlace) {
  experiment_["machine"]["nic"] = "m";
  EXPECT_THAT(refusal(), HasSubstr("(for raw.csv:3)"));
  experiment_["machine"]["nic"] = "n";
  experiment_["x"] = "payload";
  EXPECT_THAT(refusal(), HasSubstr("no column \"payload\""));
  experiment_["x"] = "payload_b";
  experiment_["assumption"] = "one";
  EXPECT_THAT(refusal(), HasSubstr("raw.json:"));
  experiment_.erase("assumption");
  experiment_["result"]["pointer"] = "operations_per_s";
  EXPECT_THAT(refusal(), HasSubstr("/result/pointer: \"operations_per_s\" is no JSON pointer; allowed: "));
}

TEST_F(Experiments, ANameIsAFilesAndOneExperiments) {
  for (const char* name : {"../raw", "a/b", "", ".raw", "r\u00e4w"}) {
    experiment_["name"] = name;
    EXPECT_THAT(refusal(), HasSubstr("raw.json:")) << name;
    EXPECT_THAT(refusal(), HasSubstr("/name: ")) << name;
  }
  experiment_["name"] = "raw";
  write("experiments/again.json", experiment_.dump(2));
  EXPECT_THAT(refusal(), testing::ContainsRegex("raw.json:[0-9]+:[0-9]+: \"raw\" is another file's name"));
}

TEST_F(Experiments, WhatARuleSetsIsInsideAnObject) {
  const json right = experiment_;
  experiment_["rules"][0]["set"]["workload.name.x"] = 3;
  EXPECT_THAT(refusal(),
              testing::ContainsRegex("raw.json:[0-9]+:[0-9]+: /rules/0/set: \"workload.name.x\" is in "
                                     "no object"));
  experiment_ = right;
  experiment_["best_over"] = {{{"cluster.nic.x", 1}}};
  EXPECT_THAT(refusal(), HasSubstr("/best_over/0: \"cluster.nic.x\" is in no object"));
  experiment_ = right;
  experiment_["rules"][0]["set"]["workload.payload_b"]["times"] = "two";
  EXPECT_THAT(refusal(), HasSubstr("/rules/0/set/workload.payload_b/times: wrong type: string"));
  experiment_ = right;
  experiment_["rules"][2]["where"]["payload_b"] = {{"min", "few"}};
  EXPECT_THAT(refusal(), HasSubstr("/rules/2/where/payload_b/min: wrong type: string"));
  experiment_["rules"][2]["where"]["payload_b"] = true;
  EXPECT_THAT(refusal(), HasSubstr("/rules/2/where/payload_b: wrong type: boolean"));
}

TEST_F(Experiments, WhatComesFirstInTheFileIsToldFirst) {
  write("experiments/raw.json", "{\n\"version\": 2,\n\"format\": \"x\"}");
  EXPECT_THAT(refusal_of_files(), HasSubstr("raw.json:2:12: /version: unknown value 2"));
}

TEST_F(Experiments, DataThatAreNotThereAreTold) {
  fs::remove_all(root_ / "published/train");
  EXPECT_THAT(refusal_of_files(), HasSubstr("train: cannot be read: No such file or directory"));
}

TEST_F(Experiments, OnlyTheFittedSetIsRead) {
  // Whatever lies in the folder of the validation set would be refused, were it read.
  write("published/validation/other.csv", "garbage,\"");
  fs::create_directories(root_ / "published/validation/directory.csv");
  EXPECT_EQ(refusal(), "accepted");
  for (const char* path : {"../validation/other.csv", "validation/other.csv", "/tmp/other.csv"}) {
    experiment_["data"] = path;
    EXPECT_THAT(refusal(), HasSubstr("/data: a file of the fitted set by its name is allowed")) << path;
  }
}

}  // namespace
}  // namespace verbtwin::calibration
