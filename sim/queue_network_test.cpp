// The simulator's arithmetic (models::Server, SharedEngine, Fabric) beside a network of queues that has an
// event for everything: the same machines, the same loads.
#include "sim/queue_network_for_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "sim/queue_loads_for_test.hpp"

namespace verbtwin::sim {
namespace {

using Verb = QueueLoad::Verb;
using Pattern = QueueLoad::Pattern;

constexpr std::array kVerbs = {Verb::kRead, Verb::kWrite, Verb::kSend, Verb::kCompareAndSwap,
                               Verb::kDatagram};

double total(const Completed& completed) {
  return static_cast<double>(std::accumulate(completed.begin(), completed.end(), std::int64_t{0}));
}
/// Of the machines that ask: how much more the busiest does than the mean.
double most_to_mean(const QueueLoad& load, const Completed& completed) {
  int asking = 0;
  for (int machine = 0; machine < load.machines; ++machine) asking += load.asks(machine) ? 1 : 0;
  return static_cast<double>(std::ranges::max(completed)) * asking / total(completed);
}

/// Machines with prices like those of real ones, each of a different part the slowest.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}
  double between(double low, double high) { return low * std::pow(high / low, random_() / 4294967296.0); }
  std::uint32_t of(std::uint32_t count) { return random_(count); }

  models::NicProfile nic() {
    models::NicProfile nic = models::round_nic();
    nic.link_gbps = between(25, 200);
    nic.pcie_gbps = between(30, 250);
    nic.pcie_tlp_header_b = 24;
    nic.pcie_completion_b = nic.pcie_payload_b;
    nic.dma_read_ns = between(200, 800);
    nic.dma_reads_outstanding = between(24, 128);
    nic.send_doorbell_ns = between(0.5, 8);
    nic.send_wqe_ns = between(5, 50);
    nic.send_wqe_block_ns = between(0.5, 5);
    nic.send_fetch_ns = between(1, 20);
    nic.send_fetch_block_ns = between(0.5, 5);
    nic.send_response_ns = between(5, 50);
    nic.send_response_block_ns = between(0.5, 4);
    nic.serve_request_ns = between(0.5, 20);
    nic.recv_packet_ns = between(3, 40);
    nic.recv_block_ns = between(0.2, 2);
    nic.recv_ack_ns = between(0.5, 10);
    nic.recv_wqe_ns = between(0.2, 10);
    nic.atomic_engine_ns = between(5, 50);
    nic.blueflame_pointers = of(2);
    nic.max_send_wr = 8192;
    nic.qp_cache_entries = 1e6;
    return nic;
  }

 private:
  pcg32 random_;
};

/// Alone on its way a request takes as long, but for roundings.
TEST(QueueNetwork, ALoneRequestTakesAsLong) {
  Draws draws(1);
  for (const Verb verb : kVerbs)
    for (const std::uint32_t bytes : {16U, 100U, 1024U}) {
      QueueLoad load;
      load.nic = draws.nic();
      load.nic.send_doorbell_ns = 0;  // which here keeps nobody waiting but those behind it
      load.verbs = {verb};
      load.bytes = bytes;
      load.is_inline = bytes == 16;
      load.pattern = Pattern::kInbound;
      load.warmup_ps = 0;
      load.measure_ps = 5'000'000'000;
      const double ours = total(carried_by_cluster(load)), exact = total(carried_by_queues(load));
      EXPECT_GT(exact, 1000);
      EXPECT_NEAR(ours / exact, 1, 0.001) << "verb " << static_cast<int>(verb) << ", " << bytes << " B";
    }
}

std::string described(const QueueLoad& load) {
  std::string verbs;
  for (const Verb verb : load.verbs) verbs += " " + std::to_string(static_cast<int>(verb));
  return std::to_string(load.machines) + " machines, " + std::to_string(load.threads) + " threads, window " +
         std::to_string(load.window) + ", " + std::to_string(load.bytes) + " B, pattern " +
         std::to_string(static_cast<int>(load.pattern)) + ", verbs" + verbs;
}

/// A load that nobody has thought of.
QueueLoad draw_load(Draws& draws) {
  QueueLoad load;
  load.nic = draws.nic();
  load.verbs.clear();
  for (std::uint32_t verbs = 1 + draws.of(3); verbs > 0; --verbs)
    load.verbs.push_back(kVerbs[draws.of(kVerbs.size())]);
  load.bytes = static_cast<std::uint32_t>(draws.between(8, 1024));
  load.is_inline = load.bytes <= load.nic.max_inline_b && draws.of(2) == 0;
  load.machines = 2 + static_cast<int>(draws.of(4));
  load.threads = 1 + static_cast<int>(draws.of(6));
  load.window = 1 << draws.of(5);
  load.pattern = static_cast<Pattern>(draws.of(3));
  return load;
}

/// Who has so many requests under way is done with them at the rate that their latency says: it is compared
/// here as well, from idle machines to full ones.
TEST(QueueNetwork, LoadsOfAllKindsAreCarriedAlike) {
  constexpr int kLoads = 200;
  Draws draws(2);
  std::vector<double> errors;
  for (int i = 0; i < kLoads; ++i) {
    const QueueLoad load = draw_load(draws);
    const Completed ours = carried_by_cluster(load), exact = carried_by_queues(load);
    const double error = total(ours) / total(exact) - 1;
    errors.push_back(std::abs(error));
    EXPECT_LT(std::abs(error), 0.15) << described(load);
    EXPECT_LT(most_to_mean(load, ours), most_to_mean(load, exact) + 0.1) << described(load);
  }
  std::ranges::sort(errors);
  EXPECT_LT(errors[kLoads / 2], 0.005);
  EXPECT_LT(errors[kLoads * 9 / 10], 0.03);
}

/// What limits them gives no more than it has, whatever shares it, and loses nothing.
TEST(QueueNetwork, FullPartsCarryAsMuch) {
  models::NicProfile fast = models::round_nic();
  fast.link_gbps = fast.pcie_gbps = 126;
  fast.atomic_engine_ns = 10;
  fast.dma_reads_outstanding = 256;
  struct Part {
    const char* name;
    void (*make_narrow)(models::NicProfile&);
  };
  for (const auto& [name, make_narrow] :
       {Part{"link", [](models::NicProfile& nic) { nic.link_gbps = 10; }},
        {"PCIe", [](models::NicProfile& nic) { nic.pcie_gbps = 25; }},
        {"engine that sends", [](models::NicProfile& nic) { nic.send_wqe_ns = 60; }},
        {"engine that receives", [](models::NicProfile& nic) { nic.recv_packet_ns = 80; }},
        {"DMA reads", [](models::NicProfile& nic) { nic.dma_reads_outstanding = 4; }}})
    for (const Verb verb : kVerbs)
      for (const bool is_inline : {false, true}) {
        QueueLoad load;
        load.nic = fast;
        make_narrow(load.nic);
        load.verbs = {verb};
        load.is_inline = is_inline;
        load.machines = 3;
        load.threads = 6;
        load.window = 16;
        const double ours = total(carried_by_cluster(load)), exact = total(carried_by_queues(load));
        EXPECT_NEAR(ours / exact, 1, 0.05)
            << "narrow " << name << (is_inline ? ", inline: " : ": ") << described(load);
      }
}

/// What is behind a full way to memory has a bound, and no machine's part of it feeds on itself: who is sent
/// more does not serve or hear less.
TEST(QueueNetwork, EqualMachinesDoTheSameThroughFullSlots) {
  for (const Verb verb : kVerbs)
    for (const double link_gbps : {50.0, 200.0})
      for (const auto& [machines, threads, window] :
           {std::tuple{2, 4, 128}, {4, 8, 64}, {4, 4, 16}}) {
        QueueLoad load;
        load.nic.pcie_gbps = 30;
        load.nic.link_gbps = link_gbps;
        load.nic.dma_reads_outstanding = 40;
        load.nic.send_wqe_ns = load.nic.recv_packet_ns = load.nic.atomic_engine_ns = 5;
        load.verbs = {verb};
        load.bytes = verb == Verb::kRead ? 512 : 128;
        load.machines = machines;
        load.threads = threads;
        load.window = window;
        load.warmup_ps = load.measure_ps = 300'000'000;
        const Completed ours = carried_by_cluster(load), exact = carried_by_queues(load);
        const bool atomic = verb == Verb::kCompareAndSwap;
        EXPECT_NEAR(total(ours) / total(exact), 1, atomic ? 0.1 : 0.05)
            << link_gbps << " Gb/s, " << described(load);
        // Of a queue pair's atomics one waits for another: there equal machines do drift apart, in both.
        const double most = atomic ? most_to_mean(load, exact) + 0.1 : 1.08;
        EXPECT_LT(most_to_mean(load, ours), most) << link_gbps << " Gb/s, " << described(load);
      }
}

/// Where others' WRITEs and SENDs fill the way up, what READs and atomics ask of host memory waits for them.
TEST(QueueNetwork, ReadsAndAtomicsPassNoWritesOnAFullSlot) {
  for (const Verb written : {Verb::kWrite, Verb::kSend})
    for (const Verb read : {Verb::kRead, Verb::kCompareAndSwap})
      for (const double tags : {24.0, 256.0}) {
        QueueLoad load;
        load.nic.pcie_gbps = 30;
        load.nic.link_gbps = 100;
        load.nic.dma_reads_outstanding = tags;
        load.nic.send_wqe_ns = load.nic.recv_packet_ns = load.nic.atomic_engine_ns = 10;
        load.verbs = {written, read};
        load.bytes = 128;
        load.machines = 4;
        load.threads = 6;
        load.window = 8;
        load.pattern = Pattern::kInbound;
        const double ours = total(carried_by_cluster(load)), exact = total(carried_by_queues(load));
        EXPECT_NEAR(ours / exact, 1, 0.1) << tags << " tags, " << described(load);
      }
}

/// Packets are jobs there, and the rest of a message a span of time here. They are full ones: the last one of
/// a message always counts as that here.
TEST(QueueNetwork, MessagesOfSeveralPacketsAreCarriedAlike) {
  for (const Verb verb : {Verb::kRead, Verb::kWrite})
    for (const std::uint32_t bytes : {8192U, 16'384U, 65'536U})
      for (const auto& [machines, threads, window, pattern, tolerance] :
           {std::tuple{2, 1, 1, Pattern::kInbound, 0.01},
            {2, 1, 4, Pattern::kAll, 0.15},
            {4, 2, 2, Pattern::kAll, 0.15},
            {4, 4, 4, Pattern::kInbound, 0.02}}) {
        QueueLoad load;
        load.nic.link_gbps = 56;
        load.nic.pcie_gbps = 100;
        load.verbs = {verb};
        load.bytes = bytes;
        load.machines = machines;
        load.threads = threads;
        load.window = window;
        load.pattern = pattern;
        load.warmup_ps = load.measure_ps = 2'000'000'000;
        const double ours = total(carried_by_cluster(load)), exact = total(carried_by_queues(load));
        EXPECT_GT(exact, 40);
        EXPECT_NEAR(ours / exact, 1, tolerance) << described(load);
      }
}

}  // namespace
}  // namespace verbtwin::sim
