// KeyGroups: workloads of a plain key-value store: each transaction reads some keys and writes some, all
// named beforehand. For the RAMP family, whose transactions are GET_ALL and PUT_ALL.
//
// Made once per run and shared by all workers; const calls from any thread. No I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <pcg_random.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "protocols/registry.hpp"

namespace verbtwin::protocols {

/// One transaction. A key stands once in each list; one in both is read, then written.
struct KeyGroup {
  std::uint32_t type = 0;  // index into transaction_names()
  std::vector<std::uint64_t> reads, writes;
};

class KeyGroups {
 public:
  virtual ~KeyGroups() = default;
  virtual std::span<const std::string_view> transaction_names() const = 0;
  virtual std::uint64_t keys() const = 0;  // keys are 0 .. keys()-1
  virtual std::uint32_t value_b() const = 0;
  virtual std::uint32_t group_max() const = 0;  // keys of one transaction
  virtual void draw(pcg32& random, KeyGroup& into) const = 0;
};

std::span<const RegistryEntry> key_group_entries();
/// `workload` is the resolved object of a scenario.
std::unique_ptr<KeyGroups> make_key_groups(const nlohmann::json& workload);

}  // namespace verbtwin::protocols
