#include "protocols/workloads/key_groups.hpp"

#include <algorithm>
#include <array>

#include "backend/user_error.hpp"
#include "protocols/parameters.hpp"
#include "protocols/workloads/draws.hpp"

namespace verbtwin::protocols {

namespace {

constexpr std::array<std::string_view, 2> kNames = {"read", "write"};

class ReadWriteMix final : public KeyGroups {
 public:
  explicit ReadWriteMix(const nlohmann::json& w)
      : operations_(w.at("operations")),
        reads_(per_million(w.at("read_ratio"))),
        value_b_(w.at("value_b")),
        zipf_(w.at("keys").get<std::uint64_t>(), w.at("distribution") == "zipf" ? 0.99 : 0),
        keys_(w.at("keys")) {
    if (keys_ < operations_) throw UserError("/workload/keys", "fewer keys than operations");
  }
  std::span<const std::string_view> transaction_names() const override { return kNames; }
  std::uint64_t keys() const override { return keys_; }
  std::uint32_t value_b() const override { return value_b_; }
  std::uint32_t group_max() const override { return operations_; }
  void draw(pcg32& random, KeyGroup& into) const override {
    into.reads.clear();
    into.writes.clear();
    into.type = draw_chance(random, reads_) ? 0 : 1;
    std::vector<std::uint64_t>& keys = into.type == 0 ? into.reads : into.writes;
    while (keys.size() < operations_) {
      const std::uint64_t key = spread(zipf_.draw(random)) % keys_;
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }

 private:
  std::uint32_t operations_, reads_, value_b_;
  Zipf zipf_;
  std::uint64_t keys_;
};

}  // namespace

std::span<const RegistryEntry> key_group_entries() {
  static const std::vector<RegistryEntry> entries = [] {
    using namespace parameters;
    RegistryEntry mix{"read-write-mix",
                      "transactions that only read or only write some keys",
                      {{"properties",
                        {{"operations", number(8, 1, 64, "keys of a transaction")},
                         {"read_ratio",
                          {{"type", "number"},
                           {"minimum", 0},
                           {"maximum", 1},
                           {"default", 0.95},
                           {"description", "share of transactions that read"}}},
                         {"distribution", choice("uniform", {"uniform", "zipf"}, "of the keys")},
                         {"keys", number(100'000, 1, 1 << 26, "keys of all servers together")},
                         {"value_b", number(64, 8, 3000, "size of a value")}}}}};
    return std::vector<RegistryEntry>{mix};
  }();
  return entries;
}

std::unique_ptr<KeyGroups> make_key_groups(const nlohmann::json& workload) {
  return std::make_unique<ReadWriteMix>(workload);
}

}  // namespace verbtwin::protocols
