#include "scenarios/foreign_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "scenarios/text.hpp"

namespace verbtwin::scenarios {

namespace {

using nlohmann::json;

constexpr std::string_view kWorkload = "workload.";
constexpr const char* kYcsb = "YCSB";
constexpr const char* kBenchBase = "BenchBase";

struct ForeignName {
  std::string_view key;  // in lower case
  const char* program;
  std::string_view path;  // of a workload's only where the workload has it
  const char* how;        // what is different
};

/// Of several lines with one key the first that the workload has counts.
constexpr ForeignName kNames[] = {
    {"recordcount", kYcsb, "workload.records_per_node", "of each node"},
    {"recordcount", kYcsb, "workload.keys", ""},
    {"readproportion", kYcsb, "workload.mix_percent.read", "in percent"},
    {"readproportion", kYcsb, "workload.read_ratio", ""},
    {"readproportion", kYcsb, "workload.mix", "one of YCSB's workloads"},
    {"updateproportion", kYcsb, "workload.mix_percent.update", "in percent"},
    {"updateproportion", kYcsb, "workload.read_ratio", "the other share"},
    {"updateproportion", kYcsb, "workload.mix", "one of YCSB's workloads"},
    {"insertproportion", kYcsb, "workload.mix_percent.insert", "in percent"},
    {"scanproportion", kYcsb, "workload.mix_percent.scan", "in percent"},
    {"readmodifywriteproportion", kYcsb, "workload.mix_percent.read_modify_write", "in percent"},
    {"requestdistribution", kYcsb, "workload.distribution", ""},
    {"requestdistribution", kYcsb, "workload.theta", "0.99 is zipfian, 0 is uniform; latest is mix D"},
    {"fieldlength", kYcsb, "workload.value_b", "of all fields together"},
    {"fieldcount", kYcsb, "workload.value_b", "the bytes of all fields together"},
    {"operationcount", kYcsb, "run.measure_us", "a run takes so long, and does what it can"},
    {"threadcount", kYcsb, "cluster.threads", "of each node, with cluster.coroutines in flight on each"},
    {"target", kYcsb, "run.offered_per_s", "of all nodes together"},
    {"weights", kBenchBase, "workload.mix_percent", "by transaction"},
    {"rate", kBenchBase, "run.offered_per_s", "of all nodes together"},
    {"terminals", kBenchBase, "cluster.threads", "of each node, with cluster.coroutines in flight on each"},
    {"scalefactor", kBenchBase, "workload.warehouses_per_node", "of each node"},
    {"scalefactor", kBenchBase, "workload.accounts_per_thread", "of each thread, and not in millions"},
    {"scalefactor", kBenchBase, "workload.subscribers_per_node", "of each node, and not in 100,000s"},
    {"scalefactor", kBenchBase, "workload.records_per_node", "of each node, and not in thousands"},
};

/// Whether an object of this schema may have the member at "mix_percent.read".
bool has_path(const json& object_schema, std::string_view path) {
  const json* schema = &object_schema;
  while (true) {
    const std::size_t dot = path.find('.');
    const std::string key(path.substr(0, dot));
    const auto properties = schema->find("properties");
    if (properties == schema->end() || !properties->contains(key)) return false;
    if (dot == path.npos) return true;
    schema = &properties->at(key);
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

std::string foreign_name_hint(const json& object_schema, const std::string& pointer, std::string_view key) {
  const bool at_root = pointer.empty() && has_path(object_schema, "workload");
  const bool in_workload = pointer == "/workload" || pointer.starts_with("/workload/");
  if (!at_root && !in_workload && pointer != "/run" && pointer != "/cluster") return "";
  std::string lower;
  std::ranges::transform(key, std::back_inserter(lower), [](unsigned char c) { return std::tolower(c); });
  const auto properties = object_schema.find("properties");
  if (properties == object_schema.end()) return "";
  for (const auto& [own, property] : properties->items())
    if (own.starts_with(lower)) return "";  // begun, rather than brought from elsewhere
  for (const ForeignName& name : kNames) {
    if (name.key != lower) continue;
    const bool of_workload = name.path.starts_with(kWorkload);
    const std::string_view inside = of_workload ? name.path.substr(kWorkload.size()) : name.path;
    if (of_workload && !(at_root ? has_path(object_schema, name.path) : has_path(object_schema, inside)))
      continue;
    const std::string how(name.how);
    return fmt::format("; {}'s {} is {} here{}", name.program, in_quotes(name.key), name.path,
                       how.empty() ? "" : ": " + how);
  }
  return "";
}

}  // namespace verbtwin::scenarios
