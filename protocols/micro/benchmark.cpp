#include "protocols/micro/benchmark.hpp"

#include <string>

#include "backend/user_error.hpp"
#include "protocols/micro/echo.hpp"
#include "protocols/micro/multi_object.hpp"
#include "protocols/micro/primitive.hpp"

namespace verbtwin::protocols {

namespace {

struct Registered {
  RegistryEntry entry;
  std::unique_ptr<Benchmark> (*make)(const nlohmann::json& workload, const BenchmarkParameters& parameters);
};

const std::vector<Registered>& registered() {
  static const std::vector<Registered> all = {{primitive_entry(), make_primitive},
                                              {echo_entry(), make_echo},
                                              {multi_object_entry(), make_multi_object}};
  return all;
}

}  // namespace

int issuing_threads_of(const nlohmann::json& workload, const ClusterShape& shape) {
  const int threads = workload.at("issuing_threads");
  if (threads > shape.threads) {
    throw UserError("/workload/issuing_threads",
                    "more than cluster.threads: 0 to " + std::to_string(shape.threads) + " is allowed");
  }
  return threads == 0 ? shape.threads : threads;
}

std::vector<RegistryEntry> benchmark_entries() {
  std::vector<RegistryEntry> entries;
  for (const Registered& one : registered()) entries.push_back(one.entry);
  return entries;
}

std::unique_ptr<Benchmark> make_benchmark(const nlohmann::json& workload,
                                          const BenchmarkParameters& parameters) {
  const std::string name = workload.at("name");
  if (parameters.shape.nodes < 2) {
    throw UserError("/cluster/nodes", "\"" + name + "\" needs another machine to talk to: at least 2 nodes");
  }
  for (const Registered& one : registered()) {
    if (one.entry.name == name) return one.make(workload, parameters);
  }
  throw UserError("/workload/name", "no micro-benchmark is called \"" + name + "\"");
}

BenchmarkNode::BenchmarkNode(const Benchmark& benchmark, const std::vector<WorkerPort*>& ports) {
  for (WorkerPort* port : ports) {
    benchmark.check_device(port->device().attributes());
    threads_.push_back(benchmark.make_thread(*port));
  }
}

void BenchmarkNode::start(const Window& window, const std::atomic<bool>& stop) {
  for (auto& thread : threads_) thread->start(window, stop);
}

}  // namespace verbtwin::protocols
