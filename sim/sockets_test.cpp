// Simulated TCP connections: the conformance suite, and when things happen.
#include "sim/sockets.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <string_view>

#include "backend/conformance/sockets.hpp"
#include "models/profiles_for_test.hpp"
#include "sim/watched_cluster_for_test.hpp"

namespace verbtwin::sim {
namespace {

using conformance::socket_case_name;
using conformance::SocketBinding;
using conformance::SocketCase;
using conformance::SocketsConformance;
using models::SocketProfile;
using testing::ElementsAre;

constexpr std::int64_t kMicrosecondPs = 1'000'000;

ClusterParameters nodes(int count, const SocketProfile& sockets) {
  ClusterParameters parameters;
  parameters.shape.nodes = count;
  parameters.nic = models::round_nic();
  parameters.host = models::free_host();
  parameters.sockets = sockets;
  return parameters;
}

class SimulatedSockets final : public SocketBinding {
 public:
  explicit SimulatedSockets(const SocketProfile& sockets)
      : watched_(nodes(kEndpoints, sockets), 20 * kMicrosecondPs) {}

  Sockets& sockets(int endpoint) override { return watched_.cluster().port(endpoint, 0).sockets(); }
  bool run_until(const std::function<bool()>& done) override { return watched_.run_until(done); }
  void settle() override { watched_.advance(3000 * kMicrosecondPs); }

 private:
  WatchedCluster watched_;
};

SocketCase simulated(const std::string& name, const std::function<void(SocketProfile&)>& change,
                     SocketProfile sockets = models::round_sockets()) {
  change(sockets);
  return {name, [sockets] { return std::make_unique<SimulatedSockets>(sockets); }};
}

INSTANTIATE_TEST_SUITE_P(Simulated, SocketsConformance,
                         testing::Values(simulated(
                                             "free", [](SocketProfile&) {}, models::free_sockets()),
                                         simulated("ethernet", [](SocketProfile&) {}),
                                         simulated("offload", [](SocketProfile& p) { p.offload_b = 65'536; }),
                                         simulated("ipoib",
                                                   [](SocketProfile& p) {
                                                     p.link_gbps = 0;
                                                     p.mtu_b = 65'520;
                                                     p.frame_payload_b = 2048;
                                                   }),
                                         simulated("moderated",
                                                   [](SocketProfile& p) {
                                                     p.interrupt_gap_ns = 30'000;
                                                     p.interrupt_queues = 4;
                                                   }),
                                         simulated("narrow", [](SocketProfile& p) { p.window_b = 2048; })),
                         socket_case_name);

// ---- when things happen

/// A worker that does what a test says whenever it has something to do.
struct Scripted final : Steppable {
  bool step() override { return work ? work() : false; }
  std::int64_t wakes_at_ps() const override { return timer_ps; }
  std::function<bool()> work;
  std::int64_t timer_ps = kNever;
};

/// Node 0 sends one message to node 1's sleeping worker.
struct OneMessage {
  explicit OneMessage(const SocketProfile& profile, std::size_t bytes = 64, int threads = 1,
                      std::int64_t timer_ps = Steppable::kNever)
      : cluster([&] {
          ClusterParameters p = nodes(2, profile);
          p.shape.threads = threads;
          return p;
        }()) {
    const std::vector<std::byte> message(bytes);
    std::size_t received = 0;
    receiver.timer_ps = timer_ps;
    sender.work = [&] {
      if (!sent_ps) {
        EXPECT_EQ(cluster.port(0, 0).sockets().send(1, message), bytes);
        sent_ps = cluster.port(0, 0).cpu().now_ps();
      }
      return false;
    };
    receiver.work = [&] {
      std::array<SocketReady, 2> ready;
      std::vector<std::byte> buffer(bytes);
      const std::size_t count = cluster.port(1, 0).sockets().poll(ready);
      if (count > 0) received += cluster.port(1, 0).sockets().receive(0, buffer);
      if (received == bytes && received_ps == 0) received_ps = cluster.port(1, 0).cpu().now_ps();
      return count > 0;
    };
    for (int thread = 1; thread < threads; ++thread) {
      cluster.drive(0, thread, idle);
      cluster.drive(1, thread, idle);
    }
    cluster.drive(1, 0, receiver);
    cluster.clock().run_until(100 * kMicrosecondPs, [] { return true; });
    cluster.drive(0, 0, sender);
    start_ps = cluster.calendar().now_ps();
    cluster.clock().run_until(2000 * kMicrosecondPs, [] { return true; });
    EXPECT_EQ(received, bytes);
  }
  std::vector<std::int64_t> busy_ns(std::string_view resource) const {
    const Usage usage = cluster.usage();
    std::vector<std::int64_t> busy =
        std::ranges::find(usage.resources, resource, &Usage::Resource::name)->busy_ps;
    for (std::int64_t& ps : busy) ps /= 1000;
    return busy;
  }
  std::int64_t latency_ns() const { return (received_ps - start_ps) / 1000; }

  Cluster cluster;
  Scripted sender, receiver, idle;
  std::int64_t start_ps = 0, sent_ps = 0, received_ps = 0;
};

constexpr std::int64_t kWireNs = (64 + 50 + 40) * 2;  // stored and forwarded

TEST(SimulatedSockets, AMessageTakesTheSumOfItsParts) {
  constexpr std::int64_t kSendNs = 300 + 10 + 4 + 1500;
  constexpr std::int64_t kInterruptNs = 800 + 1200 + 4;
  constexpr std::int64_t kReceiveNs = 3000 + 1700 + 200 + 100 + 250 + 10;
  EXPECT_EQ(OneMessage(models::round_sockets()).latency_ns(),
            kSendNs + 1000 + kWireNs + 2000 + kInterruptNs + kReceiveNs);
}

TEST(SimulatedSockets, EachPartCanBeSwitchedOff) {
  const std::int64_t all_ns = OneMessage(models::round_sockets()).latency_ns();
  const auto saved_ns = [&](double SocketProfile::*part) {
    SocketProfile profile = models::round_sockets();
    profile.*part = 0;
    return all_ns - OneMessage(profile).latency_ns();
  };
  EXPECT_EQ(saved_ns(&SocketProfile::send_call_ns), 300);
  EXPECT_EQ(saved_ns(&SocketProfile::copy_block_ns), 2 * 10);
  EXPECT_EQ(saved_ns(&SocketProfile::checksum_block_ns), 2 * 4);
  EXPECT_EQ(saved_ns(&SocketProfile::send_segment_ns), 1500);
  EXPECT_EQ(saved_ns(&SocketProfile::nic_ns), 1000);
  EXPECT_EQ(saved_ns(&SocketProfile::switch_ns), 2000);
  EXPECT_EQ(saved_ns(&SocketProfile::frame_header_b), 2 * 40);
  EXPECT_EQ(saved_ns(&SocketProfile::interrupt_ns), 800);
  EXPECT_EQ(saved_ns(&SocketProfile::receive_packet_ns), 1200);
  EXPECT_EQ(saved_ns(&SocketProfile::wakeup_ns), 3000);
  EXPECT_EQ(saved_ns(&SocketProfile::context_switch_ns), 1700);
  EXPECT_EQ(saved_ns(&SocketProfile::poll_call_ns), 200);
  EXPECT_EQ(saved_ns(&SocketProfile::poll_ready_ns), 100);
  EXPECT_EQ(saved_ns(&SocketProfile::receive_call_ns), 250);
  EXPECT_EQ(saved_ns(&SocketProfile::ack_ns), 0) << "a short message is acknowledged by what answers it";
  EXPECT_EQ(OneMessage(models::free_sockets()).latency_ns(), 1000 + kWireNs + 2000);
}

TEST(SimulatedSockets, OverIpoibTheRdmaLinkCarriesThePackets) {
  SocketProfile profile = models::free_sockets();
  profile.link_gbps = 0;
  OneMessage message(profile);
  // Cut-through on 1 B/ns: once.
  const std::int64_t fabric_ns = (2 * 25 + 130);
  EXPECT_EQ(message.latency_ns(), 1000 + 64 + 50 + 40 + fabric_ns);
  const Usage usage = message.cluster.usage();
  const auto link = std::ranges::find(usage.resources, "link", &Usage::Resource::name);
  EXPECT_EQ(*std::ranges::max_element(link->busy_ps), 154'000);
  EXPECT_EQ(std::ranges::find(usage.resources, "socket_link", &Usage::Resource::name), usage.resources.end());
}

TEST(SimulatedSockets, LongMessagesMeetTheLinkAndTheSegments) {
  SocketProfile profile = models::round_sockets();
  const std::int64_t packets_ns = OneMessage(profile, 60'000).latency_ns();
  EXPECT_GT(packets_ns, 60'000) << "1 B/ns";
  const auto send_ns = [&](double offload_b) {
    profile.offload_b = offload_b;
    const OneMessage message(profile, 60'000);
    return (message.sent_ps - message.start_ps) / 1000;
  };
  const std::int64_t packets = (60'000 + 1449) / 1450;
  EXPECT_EQ(send_ns(0) - send_ns(65'536), (packets - 1) * 1500);
}

/// With every core in use, interrupts take time from a worker; with one to spare they do not.
TEST(SimulatedSockets, InterruptsTakeAWorkersTimeWhereNoCoreIsFree) {
  const auto core_busy_ps = [](int threads) {
    ClusterParameters parameters = nodes(2, models::round_sockets());
    parameters.shape.threads = threads;
    parameters.host.cores_per_socket = 1;  // two cores a machine
    Cluster cluster(parameters);
    const std::vector<std::byte> message(64);
    Scripted sender, idle;
    sender.work = [&, done = false]() mutable {
      if (!done) cluster.port(0, 0).sockets().send(1, message);
      done = true;
      return false;
    };
    for (int thread = 0; thread < threads; ++thread) {
      cluster.drive(1, thread, idle);
      cluster.drive(0, thread, thread == 0 ? sender : idle);
    }
    cluster.clock().run_until(1000 * kMicrosecondPs, [] { return true; });
    const Usage usage = cluster.usage();
    EXPECT_EQ(std::ranges::find(usage.resources, "socket_interrupts", &Usage::Resource::name)->busy_ps[1],
              2'004'000);
    return usage.resources[0].busy_ps.back();
  };
  EXPECT_LT(core_busy_ps(1), 1'000);
  EXPECT_GE(core_busy_ps(2), 2'004'000);
}

/// A node that receives more than the core of its interrupts can take, and a worker on that core that would
/// work for ever: each gets half of it.
TEST(SimulatedSockets, AWorkerWhereInterruptsNeverEndGetsHalfOfTheCore) {
  SocketProfile profile = models::round_sockets();
  profile.receive_packet_ns = 5000;
  ClusterParameters parameters = nodes(2, profile);
  parameters.shape.threads = 2;
  parameters.host.cores_per_socket = 1;  // two cores a machine: the worker's is the one of the interrupts
  Cluster cluster(parameters);
  const std::vector<std::byte> message(64);
  std::vector<std::byte> buffer(65'536);
  Scripted sender, receiver, worker, idle;
  sender.work = [&] {
    cluster.port(0, 0).sockets().send(1, message);
    return true;
  };
  receiver.work = [&] {
    std::array<SocketReady, 2> ready;
    if (cluster.port(1, 0).sockets().poll(ready) > 0) cluster.port(1, 0).sockets().receive(0, buffer);
    return true;
  };
  std::int64_t worked_ps = 0;
  worker.work = [&] {
    cluster.port(1, 1).cpu().charge_cycles(10'000);
    worked_ps += 10 * kMicrosecondPs;
    return true;
  };
  cluster.drive(0, 0, sender);
  cluster.drive(0, 1, idle);
  cluster.drive(1, 0, receiver);
  cluster.drive(1, 1, worker);
  const auto interrupts_ps = [&] {
    const Usage usage = cluster.usage();
    return std::ranges::find(usage.resources, "socket_interrupts", &Usage::Resource::name)->busy_ps[1];
  };
  cluster.clock().run_until(20'000 * kMicrosecondPs, [] { return true; });
  const std::int64_t worked_before_ps = worked_ps, interrupts_before_ps = interrupts_ps();
  cluster.clock().run_until(40'000 * kMicrosecondPs, [] { return true; });
  const auto share = [](std::int64_t ps) { return static_cast<double>(ps) / (20'000. * kMicrosecondPs); };
  EXPECT_NEAR(share(worked_ps - worked_before_ps), 0.5, 0.02);
  EXPECT_NEAR(share(interrupts_ps() - interrupts_before_ps), 0.5, 0.05);
}

/// An interrupt in the middle of a step makes what follows later by the time it took.
TEST(SimulatedSockets, AnInterruptedStepEndsLater) {
  const auto second_step_ps = [](double receive_packet_ns) {
    SocketProfile profile = models::round_sockets();
    profile.receive_packet_ns = receive_packet_ns;
    ClusterParameters parameters = nodes(2, profile);
    parameters.shape.threads = 2;
    parameters.host.cores_per_socket = 1;
    Cluster cluster(parameters);
    const std::vector<std::byte> message(64);
    Scripted sender, worker, idle;
    sender.work = [&, done = false]() mutable {
      if (!done) cluster.port(0, 0).sockets().send(1, message);
      done = true;
      return false;
    };
    std::vector<std::int64_t> steps_ps;
    worker.work = [&] {
      steps_ps.push_back(cluster.port(1, 1).cpu().now_ps());
      cluster.port(1, 1).cpu().charge_cycles(20'000);
      return steps_ps.size() < 2;
    };
    cluster.drive(0, 0, sender);
    cluster.drive(0, 1, idle);
    cluster.drive(1, 0, idle);
    cluster.drive(1, 1, worker);
    cluster.clock().run_until(1000 * kMicrosecondPs, [] { return true; });
    return steps_ps.at(1);
  };
  EXPECT_EQ(second_step_ps(1200), 20'000'000 + 2'004'000);
  EXPECT_EQ(second_step_ps(5000), 20'000'000 + 5'804'000);
}

TEST(SimulatedSockets, AWorkerAtWorkIsNotWoken) {
  const auto latency_ps = [](double wakeup_ns) {
    SocketProfile profile = models::round_sockets();
    profile.wakeup_ns = wakeup_ns;
    Cluster cluster(nodes(2, profile));
    const std::vector<std::byte> message(64);
    Scripted sender, worker;
    sender.work = [&, done = false]() mutable {
      if (!done) cluster.port(0, 0).sockets().send(1, message);
      done = true;
      return false;
    };
    std::int64_t found_ps = 0;
    worker.work = [&] {
      std::array<SocketReady, 2> ready;
      if (cluster.port(1, 0).sockets().poll(ready) > 0) {
        found_ps = cluster.port(1, 0).cpu().now_ps();
        return false;
      }
      cluster.port(1, 0).cpu().charge_cycles(500);
      return true;
    };
    cluster.drive(0, 0, sender);
    cluster.drive(1, 0, worker);
    cluster.clock().run_until(1000 * kMicrosecondPs, [] { return true; });
    return found_ps;
  };
  EXPECT_GT(latency_ps(0), 0);
  EXPECT_EQ(latency_ps(0), latency_ps(100'000));
}

TEST(SimulatedSockets, AWorkerThatWaitsForATimeSleepsAllTheSame) {
  const std::int64_t latency_ns = OneMessage(models::round_sockets()).latency_ns();
  EXPECT_EQ(OneMessage(models::round_sockets(), 64, 1, 1900 * kMicrosecondPs).latency_ns(), latency_ns);
}

TEST(SimulatedSockets, GivingTheCoreAwayIsPaidForOnce) {
  constexpr std::int64_t kPollNs = 200, kReceiveNs = 100 + 250 + 10;
  EXPECT_EQ(OneMessage(models::round_sockets()).busy_ns("core")[1],
            kPollNs + 1700 + kPollNs + kReceiveNs + kPollNs)
      << "in vain, woken, in vain again";
}

/// One for every second full packet: work on both sides, and a packet on the way back.
TEST(SimulatedSockets, FullPacketsAreAcknowledged) {
  constexpr std::int64_t kPacketNs = 1200 + 23 * 4;
  {
    const OneMessage two(models::round_sockets(), std::size_t{2} * 1450);
    EXPECT_THAT(two.busy_ns("socket_interrupts"), ElementsAre(600, 800 + 2 * kPacketNs + 600));
    EXPECT_THAT(two.busy_ns("socket_link"), ElementsAre(2 * 1540, 90, 90, 2 * 1540)) << "out and in of each";
  }
  const OneMessage one_and_a_part(models::round_sockets(), 1450 + 64);
  EXPECT_EQ(one_and_a_part.busy_ns("socket_interrupts")[0], 0);
  EXPECT_EQ(one_and_a_part.busy_ns("socket_link")[2], 0);
}

/// Whenever it says that it waits: before the receiver has read, or when word of that is on its way.
TEST(SimulatedSockets, ASleepingSenderHearsOfRoom) {
  for (std::uint64_t later_us = 0; later_us < 30; ++later_us) {
    SocketProfile profile = models::round_sockets();
    profile.window_b = 2048;
    Cluster cluster(nodes(2, profile));
    const std::vector<std::byte> message(4096);
    std::vector<std::byte> buffer(4096);
    std::size_t sent = 0, received = 0;
    Scripted sender, receiver;
    sender.work = [&] {
      const bool first = sent == 0;
      Sockets& sockets = cluster.port(0, 0).sockets();
      sent += sockets.send(1, std::span(message).subspan(sent));
      if (first) cluster.port(0, 0).cpu().charge_cycles(later_us * 1000);
      if (!first) sockets.want_room(1, sent < message.size());
      return first;
    };
    receiver.work = [&] {
      std::array<SocketReady, 2> ready;
      if (cluster.port(1, 0).sockets().poll(ready) == 0) return false;
      received += cluster.port(1, 0).sockets().receive(0, buffer);
      return true;
    };
    cluster.drive(0, 0, sender);
    cluster.drive(1, 0, receiver);
    cluster.clock().run_until(1000 * kMicrosecondPs, [] { return true; });
    EXPECT_EQ(received, message.size()) << later_us;
  }
}

TEST(SimulatedSockets, AClusterWithoutThemSaysSo) {
  ClusterParameters parameters = nodes(2, models::free_sockets());
  parameters.sockets.reset();
  Cluster cluster(parameters);
  EXPECT_THROW(cluster.port(0, 0).sockets(), UserError);
}

}  // namespace
}  // namespace verbtwin::sim
