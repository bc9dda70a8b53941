#include "protocols/workloads/workload.hpp"

#include <algorithm>

#include "backend/user_error.hpp"
#include "protocols/micro/benchmark.hpp"
#include "protocols/whole_lines.hpp"
#include "protocols/workloads/key_groups.hpp"
#include "protocols/workloads/object_store.hpp"
#include "protocols/workloads/smallbank.hpp"
#include "protocols/workloads/tatp.hpp"
#include "protocols/workloads/tpcc.hpp"
#include "protocols/workloads/tpce.hpp"
#include "protocols/workloads/ycsb.hpp"

namespace verbtwin::protocols {

namespace {

struct Registered {
  RegistryEntry entry;
  std::unique_ptr<Workload> (*make)(const nlohmann::json& parameters, int nodes, int threads);
};

const std::vector<Registered>& registered() {
  static const std::vector<Registered> all = {{object_store_entry(), make_object_store},
                                              {smallbank_entry(), make_smallbank},
                                              {tatp_entry(), make_tatp},
                                              {tpcc_entry(), make_tpcc},
                                              {tpce_entry(), make_tpce},
                                              {ycsb_entry(), make_ycsb}};
  return all;
}

}  // namespace

std::size_t Workload::written_b_max() const {
  std::size_t value_b = 0;
  for (const TableSpec& table : tables()) value_b = std::max<std::size_t>(value_b, table.value_b);
  return writes_max() * whole_words(value_b);
}

std::span<const RegistryEntry> workload_entries() {
  static const std::vector<RegistryEntry> entries = [] {
    std::vector<RegistryEntry> list;
    for (const Registered& one : registered()) list.push_back(one.entry);
    for (RegistryEntry entry : key_group_entries()) {
      entry.family = "ramp";
      list.push_back(std::move(entry));
    }
    for (RegistryEntry& entry : benchmark_entries()) list.push_back(std::move(entry));
    return list;
  }();
  return entries;
}

std::unique_ptr<Workload> make_workload(const nlohmann::json& workload, int nodes, int threads) {
  const std::string name = workload.at("name");
  for (const Registered& one : registered()) {
    if (one.entry.name == name) return one.make(workload, nodes, threads);
  }
  throw UserError("/workload/name", "no workload is called \"" + name + "\"");
}

}  // namespace verbtwin::protocols
