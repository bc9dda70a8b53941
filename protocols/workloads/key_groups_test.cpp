// What the workloads of key groups promise of their draws.
#include "protocols/workloads/key_groups.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "backend/user_error.hpp"

namespace verbtwin::protocols {
namespace {

using nlohmann::json;

/// A workload with its defaults, but for `changed`.
std::unique_ptr<KeyGroups> groups(const std::string& name, const json& changed = json::object()) {
  json workload = {{"name", name}};
  for (const RegistryEntry& entry : key_group_entries()) {
    if (entry.name != name) continue;
    for (const auto& [key, property] : entry.schema.at("properties").items()) {
      workload[key] = property.at("default");
    }
  }
  workload.update(changed);
  return make_key_groups(workload);
}

/// Shares of the transactions' types over many draws, each drawn group having been looked at.
template <typename Look>
std::map<std::string, double> shares(const KeyGroups& workload, const Look& look) {
  constexpr int kDraws = 100'000;
  pcg32 random(5);
  KeyGroup group;
  std::map<std::string, double> counts;
  for (int i = 0; i < kDraws; ++i) {
    workload.draw(random, group);
    counts[std::string(workload.transaction_names()[group.type])] += 1.0 / kDraws;
    look(group);
  }
  return counts;
}

TEST(KeyGroups, AMixReadsOrWritesAllItsKeys) {
  const auto workload = groups("read-write-mix", {{"operations", 5}, {"keys", 7}, {"read_ratio", 0.7}});
  auto types = shares(*workload, [&](const KeyGroup& group) {
    ASSERT_EQ(group.reads.size(), group.type == 0 ? 5U : 0U);
    ASSERT_EQ(group.writes.size(), group.type == 1 ? 5U : 0U);
    const auto& keys = group.type == 0 ? group.reads : group.writes;
    ASSERT_EQ(std::set(keys.begin(), keys.end()).size(), 5U) << "keys of a transaction differ";
    ASSERT_LT(*std::ranges::max_element(keys), 7U);
  });
  EXPECT_NEAR(types["read"], 0.7, 0.005);
  EXPECT_NEAR(types["write"], 0.3, 0.005);
  EXPECT_EQ(workload->transaction_names().size(), 2U);
  EXPECT_EQ(workload->group_max(), 5U);
}

TEST(KeyGroups, AllOrNothingReads) {
  for (const double ratio : {0.0, 1.0}) {
    auto types = shares(*groups("read-write-mix", {{"read_ratio", ratio}}), [](const KeyGroup&) {});
    EXPECT_EQ(types.size(), 1U);
    EXPECT_NEAR(types["read"], ratio, 1e-9);
  }
}

TEST(KeyGroups, YcsbsLettersMixAsTheirDefinitionSays) {
  const std::map<std::string, std::map<std::string, double>> letters = {
      {"A", {{"read", 0.5}, {"write", 0.5}}},
      {"B", {{"read", 0.95}, {"write", 0.05}}},
      {"C", {{"read", 1}}},
      {"F", {{"read", 0.5}, {"read_modify_write", 0.5}}}};
  for (const auto& [letter, expected] : letters) {
    const auto workload = groups("ycsb-groups", {{"mix", letter}});
    EXPECT_EQ(workload->keys() * workload->value_b(), 1'000'000U) << "a table of 1,000 KB";
    const auto types = shares(*workload, [&](const KeyGroup& group) {
      if (workload->transaction_names()[group.type] == "read_modify_write") {
        ASSERT_EQ(group.reads, group.writes);
        ASSERT_EQ(group.reads.size(), 8U);
      } else {
        ASSERT_EQ(group.reads.size() + group.writes.size(), 8U);
      }
    });
    ASSERT_EQ(types.size(), expected.size()) << letter;
    for (const auto& [type, share] : expected) EXPECT_NEAR(types.at(type), share, 0.005) << letter << type;
  }
}

/// How often each key is the only one of a transaction.
std::vector<double> popularity(const json& changed) {
  json one = {{"operations", 1}, {"read_ratio", 1}};
  one.update(changed);
  const auto workload = groups("read-write-mix", one);
  std::vector<double> drawn(workload->keys());
  shares(*workload, [&](const KeyGroup& group) { drawn[group.reads.front()] += 1e-5; });
  return drawn;
}

TEST(KeyGroups, UniformKeysAreEquallyPopular) {
  for (const json& changed : {json{{"keys", 20}, {"distribution", "uniform"}},
                              json{{"keys", 20}, {"distribution", "zipf"}, {"theta", 0}}}) {
    for (const double share : popularity(changed)) EXPECT_NEAR(share, 0.05, 0.004);
  }
}

TEST(KeyGroups, ZipfianKeysAreAsPopularAsTheirRank) {
  const std::vector<double> drawn = popularity({{"keys", 100}, {"distribution", "zipf"}, {"theta", 0.99}});
  double zeta = 0;
  for (int rank = 1; rank <= 100; ++rank) zeta += std::pow(rank, -0.99);
  EXPECT_NEAR(drawn[0], 1 / zeta, 0.01);
  EXPECT_NEAR(drawn[1], std::pow(2, -0.99) / zeta, 0.01);
  double tail = 0, expected = 0;
  for (std::size_t rank = 51; rank <= 100; ++rank) {
    tail += drawn[rank - 1];
    expected += std::pow(static_cast<double>(rank), -0.99) / zeta;
  }
  EXPECT_NEAR(tail, expected, 0.02);
}

TEST(KeyGroups, ASeedDrawsTheSameAgain) {
  for (const char* name : {"read-write-mix", "ycsb-groups"}) {
    const auto workload = groups(name);
    pcg32 one(7), same(7);
    KeyGroup group, again;
    for (int i = 0; i < 1000; ++i) {
      workload->draw(one, group);
      workload->draw(same, again);
      ASSERT_EQ(group.type, again.type);
      ASSERT_EQ(group.reads, again.reads);
      ASSERT_EQ(group.writes, again.writes);
    }
  }
}

TEST(KeyGroups, MoreOperationsThanKeysAreRefused) {
  EXPECT_NO_THROW(groups("read-write-mix", {{"keys", 8}}));
  try {
    groups("read-write-mix", {{"keys", 7}});
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_EQ(error.pointer(), "/workload/operations");
  }
}

}  // namespace
}  // namespace verbtwin::protocols
