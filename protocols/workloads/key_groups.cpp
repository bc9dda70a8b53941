#include "protocols/workloads/key_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "backend/user_error.hpp"
#include "protocols/parameters.hpp"
#include "protocols/workloads/draws.hpp"

namespace verbtwin::protocols {

namespace {

using nlohmann::json;
using parameters::value_of;
using parameters::Word;

enum Type : std::uint32_t { kRead, kWrite, kReadModifyWrite };
constexpr std::array<std::string_view, 3> kNames = {"read", "write", "read_modify_write"};

/// How many of a million transactions read, and what the others do.
struct Mix {
  std::uint32_t reads = 0;
  Type others = kWrite;
};

constexpr auto kMixes = std::to_array<Word<Mix>>({{"A", {500'000, kWrite}},
                                                  {"B", {950'000, kWrite}},
                                                  {"C", {1'000'000, kWrite}},
                                                  {"F", {500'000, kReadModifyWrite}}});
constexpr auto kIsZipf = std::to_array<Word<bool>>({{"uniform", false}, {"zipf", true}});

class DrawnGroups final : public KeyGroups {
 public:
  DrawnGroups(const json& parameters, Mix mix)
      : mix_(mix),
        keys_(parameters.at("keys").get<std::uint64_t>()),
        operations_(parameters.at("operations").get<std::uint32_t>()),
        value_b_(parameters.at("value_b").get<std::uint32_t>()),
        ranks_(keys_,
               value_of(kIsZipf, parameters.at("distribution")) ? parameters.at("theta").get<double>() : 0) {
    if (operations_ <= keys_) return;
    throw UserError("/workload/operations",
                    fmt::format("is {}, but the keys of a transaction differ from each other and there are "
                                "{} (workload.keys); allowed: at most that many",
                                operations_, keys_));
  }

  std::span<const std::string_view> transaction_names() const override {
    return std::span(kNames).first(mix_.others == kReadModifyWrite ? 3 : 2);
  }
  std::uint64_t keys() const override { return keys_; }
  std::uint32_t value_b() const override { return value_b_; }
  std::uint32_t group_max() const override { return operations_; }

  void draw(pcg32& random, KeyGroup& into) const override {
    into.type = draw_chance(random, mix_.reads) ? kRead : mix_.others;
    into.reads.clear();
    into.writes.clear();
    std::vector<std::uint64_t>& keys = into.type == kWrite ? into.writes : into.reads;
    while (keys.size() < operations_) {
      const std::uint64_t key = ranks_.draw(random);
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
    if (into.type == kReadModifyWrite) into.writes = into.reads;
  }

 private:
  Mix mix_;
  std::uint64_t keys_;
  std::uint32_t operations_, value_b_;
  Zipf ranks_;
};

/// What both workloads take, with their defaults.
json group_properties(const char* distribution, std::int64_t keys, std::int64_t value_b) {
  using namespace parameters;
  return {{"operations", number(8, 1, 256, "keys of a transaction, all different")},
          {"distribution", choice(distribution, kIsZipf, "how popular keys are")},
          {"theta", theta("skew of distribution \"zipf\"; 0: uniform")},
          {"keys", number(keys, 1, 1 << 26, "keys of all servers together")},
          {"value_b", number(value_b, 8, 3000, "size of a value")}};
}

RegistryEntry mix_entry() {
  json properties = group_properties("uniform", 100'000, 64);
  properties["read_ratio"] =
      parameters::real(0.95, 0, 1, "share of transactions that read; the others write");
  return {"read-write-mix",
          "transactions that read all their keys or write all of them",
          {{"properties", properties}}};
}

RegistryEntry ycsb_groups_entry() {
  json properties = group_properties("zipf", 1'000, 1'000);
  properties["mix"] = parameters::choice(
      "B", kMixes,
      "A: half of the transactions write, B: 5 %, C: none, F: half of them read and write the same keys");
  return {"ycsb-groups",
          "YCSB core workloads A, B, C and F, several operations a transaction",
          {{"properties", properties}}};
}

}  // namespace

std::span<const RegistryEntry> key_group_entries() {
  static const std::array<RegistryEntry, 2> entries{mix_entry(), ycsb_groups_entry()};
  return entries;
}

std::unique_ptr<KeyGroups> make_key_groups(const json& workload) {
  const bool ycsb = workload.at("name") == "ycsb-groups";
  const Mix mix =
      ycsb ? value_of(kMixes, workload.at("mix")) : Mix{per_million(workload.at("read_ratio")), kWrite};
  return std::make_unique<DrawnGroups>(workload, mix);
}

}  // namespace verbtwin::protocols
