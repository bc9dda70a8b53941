// The twin check: for one seed and one client, the requests that transactions post are the same in simulation
// and on a real device: phase, kind, order, bytes and target. Runs where there is a device, as
// on_device_test.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/ibverbs/cluster.hpp"
#include "calibration/profile_file.hpp"
#include "protocols/occ/options.hpp"
#include "protocols/system.hpp"
#include "scenarios/loader.hpp"
#include "sim/cluster.hpp"
#include "tools/ranks/drivers.hpp"
#include "tools/ranks/launcher.hpp"
#include "tools/run/catalog.hpp"
#include "tools/run/job.hpp"
#include "tools/run/observed_port.hpp"

namespace verbtwin::tools {
namespace {

using namespace std::chrono_literals;

constexpr int kNodes = 3;
constexpr std::size_t kRequests = 1500;

/// What a worker has posted, in order; counted for others to see.
struct Record {
  void add(const std::string& target, const SendWr& wr) {
    if (requests.size() < kRequests) {
      const std::string_view phase = program == nullptr ? "?" : protocols::to_string(program->phase(0, 0));
      requests.push_back(
          fmt::format("{}: {} {} B to {}", phase, to_string(wr.opcode), wr.sge.length, target));
    }
    count.fetch_add(1);
  }
  const protocols::NodeProgram* program = nullptr;  // whose coroutine's phase it is
  std::vector<std::string> requests;
  std::atomic<std::size_t> count{0};
};

/// The node that a request goes to.
std::string target_of(WorkerPort& port, const ObservedPort::Posted& posted, const SendWr& wr) {
  if (posted.peer >= 0) return std::to_string(posted.peer);
  for (int node = 0; node < port.shape().nodes; ++node) {
    if (port.ud_address(node, port.thread()).qp_num == wr.remote_qpn) return std::to_string(node);
  }
  return "nobody";
}

ObservedPort::Observer recorder(WorkerPort& port, Record& record) {
  ObservedPort::Observer observer;
  observer.posted = [&](const ObservedPort::Posted& posted) {
    for (const SendWr& wr : posted.list) record.add(target_of(port, posted, wr), wr);
  };
  return observer;
}

/// The client's window is long, the servers' is over before it begins.
constexpr protocols::Window kClient{0, 60'000'000'000'000};
constexpr protocols::Window kServer{0, 0};
const protocols::Window& window_of(int node) {
  return node == 0 ? kClient : kServer;
}

protocols::SystemParameters parameters_of(const scenarios::Scenario& scenario) {
  protocols::SystemParameters parameters = system_parameters(scenario, {});
  parameters.options.reclaim_entries = 1U << 20;
  return parameters;
}

scenarios::Scenario scenario_of(const std::string& protocol) {
  // Logs so large that none is half full, and parameters by which none is reclaimed before: when that happens
  // depends on time.
  std::vector<std::string> overrides = {"protocol.name=" + protocol, "protocol.log.ring_kib=1024",
                                        "cluster.threads=1", "cluster.coroutines=1"};
  // FaRM's COMMIT-PRIMARY takes effect when the primary polls its log, a while after it is reported: who
  // comes back to a record at once may find it locked and fetch again. So no record is popular.
  if (protocol == "farm") {
    overrides.insert(overrides.end(), {"workload.hot_probability=0", "workload.accounts_per_thread=100000"});
  }
  return scenarios::load_scenario(VERBTWIN_SOURCE_DIR "/scenarios/smallbank-3-rxe.json", overrides,
                                  make_catalog());
}

std::vector<std::string> simulated(const scenarios::Scenario& scenario) {
  const protocols::System system(parameters_of(scenario), scenario.workload);
  sim::ClusterParameters p;
  p.shape = system.parameters().shape;
  p.nic = calibration::load_nic_profile(scenario.cluster.nic);
  p.host = calibration::load_host_profile(scenario.cluster.host);
  p.node_memory_b = system.node_memory_bytes();
  sim::Cluster cluster(p);
  Record record;
  ObservedPort client(cluster.port(0, 0), recorder(cluster.port(0, 0), record));
  std::atomic<bool> stop{false};
  std::vector<std::unique_ptr<protocols::NodeProgram>> nodes;
  for (int node = 0; node < kNodes; ++node) {
    WorkerPort* port = node == 0 ? static_cast<WorkerPort*>(&client) : &cluster.port(node, 0);
    nodes.push_back(std::make_unique<protocols::NodeProgram>(system, node, cluster.memory(node),
                                                             std::vector<WorkerPort*>{port}));
  }
  for (int node = 0; node < kNodes; ++node) {
    if (node == 0) record.program = nodes.front().get();
    nodes[static_cast<std::size_t>(node)]->start(window_of(node), stop);
    cluster.drive(node, 0, nodes[static_cast<std::size_t>(node)]->worker(0));
  }
  cluster.clock().run_until(kClient.end_ps, [&] { return record.count < kRequests; });
  return record.requests;
}

/// One rank of three in this process: rank 0 records and says when it is enough.
void run_rank(const scenarios::Scenario& scenario, int rank, std::uint16_t port,
              std::vector<std::string>* requests) {
  ibverbs::RendezvousOptions meeting;
  meeting.rank = rank;
  meeting.ranks = kNodes;
  meeting.port = port;
  ibverbs::Rendezvous rendezvous(meeting);
  const protocols::System system(parameters_of(scenario), scenario.workload);
  ibverbs::Cluster cluster({system.parameters().shape, rank, {{}}, system.node_memory_bytes(), ""});
  Record record;
  ObservedPort recording(cluster.port(0), recorder(cluster.port(0), record));
  std::atomic<bool> stop{false};
  {
    protocols::NodeProgram node(system, rank, cluster.memory(), {&recording});
    record.program = &node;
    cluster.connect(rendezvous, 30s);
    node.start(window_of(rank), stop);
    rendezvous.share("starting", "", 30s);
    cluster.start_clock();
    Drivers drivers(cluster, node, window_of(rank), stop, {}, false);
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (rank == 0 && record.count < kRequests && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(5ms);
    }
    stop = true;
    while (!drivers.finished() && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(1ms);
    rendezvous.share("ending", "", 90s);
    drivers.join();
    cluster.disconnect();
    EXPECT_EQ(drivers.failure(), "");
  }
  if (requests != nullptr) *requests = record.requests;
}

std::vector<std::string> measured(const scenarios::Scenario& scenario) {
  std::vector<std::string> requests;
  const std::uint16_t port = free_port();
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < kNodes; ++rank) {
    ranks.push_back(std::async(
        std::launch::async, [&, rank] { run_rank(scenario, rank, port, rank == 0 ? &requests : nullptr); }));
  }
  for (auto& rank : ranks) rank.get();
  return requests;
}

TEST(OnDeviceTwin, TheSameRequestsAreSimulatedAndReal) {
  for (const auto& protocol : protocols::occ_entries()) {
    SCOPED_TRACE(protocol.name);
    const scenarios::Scenario scenario = scenario_of(protocol.name);
    const std::vector<std::string> twin = simulated(scenario);
    const std::vector<std::string> real = measured(scenario);
    ASSERT_EQ(twin.size(), kRequests);
    ASSERT_EQ(real.size(), kRequests);
    for (std::size_t i = 0; i < kRequests; ++i) ASSERT_EQ(real[i], twin[i]) << "request " << i;
  }
}

/// Of every protocol that logs at other nodes, each of its four phases posts something here.
TEST(OnDeviceTwin, EveryPhaseIsSeen) {
  const std::vector<std::string> requests = simulated(scenario_of("drtmh"));
  for (const char* phase : {"execution: ", "validation: ", "logging: ", "commit: "}) {
    EXPECT_THAT(requests, testing::Contains(testing::StartsWith(phase)));
  }
}

TEST(OnDeviceTwin, AnotherSeedIsSeen) {
  scenarios::Scenario scenario = scenario_of("drtmh");
  const std::vector<std::string> one = simulated(scenario);
  scenario.run.seed = 2;
  EXPECT_NE(simulated(scenario), one);
}

}  // namespace
}  // namespace verbtwin::tools
