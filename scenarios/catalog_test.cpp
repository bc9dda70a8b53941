#include "scenarios/catalog_for_test.hpp"

#include <gtest/gtest.h>

#include "scenarios/document.hpp"
#include "scenarios/schema.hpp"
#include "scenarios/validate.hpp"

namespace verbtwin::scenarios {
namespace {

using nlohmann::json;

TEST(Schema, TheProgramCarriesTheFile) {
  EXPECT_EQ(scenario_schema_text(), read_text(VERBTWIN_SOURCE_DIR "/scenarios/base.schema.json"))
      << "configure again: scenarios/schema.cpp is made of it";
}

void expect_documented(const json& schema, const std::string& path) {
  EXPECT_TRUE(schema.contains("description")) << path;
  EXPECT_TRUE(schema.contains("type")) << path;
  if (!schema.contains("properties")) return;
  EXPECT_TRUE(schema.contains("additionalProperties")) << path;
  const json required = schema.value("required", json::array());
  for (const auto& [key, property] : schema["properties"].items()) {
    const bool is_required = std::find(required.begin(), required.end(), key) != required.end();
    const bool may_be_absent = key == "$schema" || key == "sweep" || key == "roles" ||
                               key == "offered_per_s" || path + "/" + key == "/protocol";
    EXPECT_NE(is_required, property.contains("default") || may_be_absent) << path << "/" << key;
    expect_documented(property, path + "/" + key);
  }
}

TEST(Schema, EveryPropertySaysWhatItIsAndItsDefault) {
  expect_documented(scenario_schema(), "");
}

json minimal(const json& protocol) {
  return {{"cluster", {{"nodes", 4}}}, {"protocol", protocol}, {"workload", {{"name", "smallbank"}}}};
}

TEST(EffectiveSchema, ParametersDependOnTheName) {
  const json schema = effective_schema(test_catalog());
  EXPECT_FALSE(judge(minimal({{"name", "drtmh"}, {"lock", "rpc"}}), schema));
  EXPECT_FALSE(judge(minimal({{"name", "fasst-occ"}}), schema));
  EXPECT_TRUE(judge(minimal({{"name", "fasst-occ"}, {"lock", "rpc"}}), schema))
      << "not a parameter of fasst-occ";
  EXPECT_TRUE(judge(minimal({{"name", "drtmh"}, {"lock", "spin"}}), schema));
  EXPECT_TRUE(judge(minimal({{"name", "drtmh"}, {"batching", {{"x", 1}}}}), schema))
      << "nested objects are closed";
  EXPECT_TRUE(judge(minimal({{"name", "farm"}}), schema));
  EXPECT_TRUE(judge(minimal(json::object()), schema));
}

TEST(EffectiveSchema, ProfilesAreNamesOrPaths) {
  const json schema = effective_schema(test_catalog());
  const auto with_nic = [](const char* nic) {
    json scenario = minimal({{"name", "drtmh"}});
    scenario["cluster"]["nic"] = nic;
    return scenario;
  };
  EXPECT_FALSE(judge(with_nic("connectx-5"), schema));
  EXPECT_FALSE(judge(with_nic("my/nic.json"), schema));
  EXPECT_TRUE(judge(with_nic("connectx-9"), schema));
}

TEST(EffectiveSchema, AnEmptyCatalogIsStillASchema) {
  EXPECT_FALSE(judge(minimal({{"name", "anything"}}), effective_schema({})));
}

}  // namespace
}  // namespace verbtwin::scenarios
