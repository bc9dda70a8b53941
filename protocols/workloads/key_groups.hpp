// KeyGroups: workloads of a plain key-value store: each transaction reads some keys and writes some, all
// named beforehand. For the RAMP family, whose transactions are GET_ALL and PUT_ALL.
//
// `read-write-mix`: transactions that read all their keys, or write all of them. `ycsb-groups`: YCSB's core
// workloads A, B, C and F (Cooper et al., SoCC 2010), `operations` of one kind grouped into a transaction, as
// RAMP's own evaluation groups them (Bailis et al., SIGMOD 2014, section 5.1); 1,000 records of 1 KB, which
// is the table of RAMP over RDMA. D and E insert and scan, which these protocols do not have.
//
// A key's number is its rank by popularity, the most popular first. Servers take keys in turn, so each has
// its share of the popular ones.
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
