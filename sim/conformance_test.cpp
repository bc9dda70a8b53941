// The verbs conformance suite on the simulated binding, and what only a simulation can tell of it: when
// things happen.
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/conformance/suite.hpp"
#include "models/profiles_for_test.hpp"
#include "sim/watched_cluster_for_test.hpp"

namespace verbtwin::conformance {
namespace {

constexpr std::int64_t kMicrosecondPs = 1'000'000;

class SimulatedBinding final : public ConformanceBinding {
 public:
  explicit SimulatedBinding(const sim::ClusterParameters& parameters) : watched_(parameters, 50'000) {}

  Device& device(int endpoint) override { return watched_.cluster().port(endpoint, 0).device(); }
  bool run_until(const std::function<bool()>& done) override { return watched_.run_until(done); }
  void settle() override { watched_.advance(200 * kMicrosecondPs); }

 private:
  sim::WatchedCluster watched_;
};

sim::ClusterParameters three_nodes() {
  sim::ClusterParameters parameters;
  parameters.shape.nodes = ConformanceBinding::kEndpoints;
  parameters.nic = models::round_nic();
  parameters.nic.link_gbps = 100;
  parameters.nic.pcie_gbps = 126;
  parameters.host = models::free_host();
  return parameters;
}

BindingCase simulated(const std::string& name, const std::function<void(sim::ClusterParameters&)>& change) {
  sim::ClusterParameters parameters = three_nodes();
  change(parameters);
  return {name, [parameters] { return std::make_unique<SimulatedBinding>(parameters); }};
}

BindingCase plain() {
  return simulated("plain", [](sim::ClusterParameters&) {});
}
/// Every cache too small, every queue long: requests are held up in different places.
BindingCase starved() {
  return simulated("starved", [](sim::ClusterParameters& p) {
    p.nic.qp_cache_entries = 1;
    p.nic.qp_miss_ns = 900;
    p.nic.dma_reads_outstanding = 2;
    p.nic.atomic_locks = 1;
    p.nic.link_gbps = 25;
    p.nic.pcie_gbps = 32;
    p.nic.queue_pair_gap_ns = 30;
    p.nic.mtu_b = 1024;
    p.nic.wire_header_b = 56;
  });
}
/// Cache lines of one access land at times of their own.
BindingCase torn() {
  return simulated("torn", [](sim::ClusterParameters& p) { p.tear = {300'000, 1}; });
}
BindingCase communications() {
  return simulated("simgrid", [](sim::ClusterParameters& p) { p.message_per_communication = true; });
}

INSTANTIATE_TEST_SUITE_P(Simulated, VerbsConformance,
                         testing::Values(plain(), starved(), torn(), communications()), case_name);

// ---- when things happen

/// Node 0 posts a list to node 1 at time 0 and nothing else happens.
class Timed final : private Steppable {
 public:
  explicit Timed(const sim::ClusterParameters& parameters)
      : cluster_(parameters), near(cluster_.port(0, 0).device()), far(cluster_.port(1, 0).device()) {
    cluster_.drive(1, 0, idle_);
  }

  std::function<void()> when_complete;  // all of a list of signalled requests

  /// When the last of the list has completed.
  std::int64_t complete_ps(std::vector<SendWr> list, const QpInitAttributes& attributes = {}) {
    QpInitAttributes near_attributes = attributes, far_attributes = attributes;
    near_attributes.send_cq = near_attributes.recv_cq = near.send_cq.get();
    far_attributes.send_cq = far_attributes.recv_cq = far.send_cq.get();
    const auto qp = near.device.create_qp(near_attributes);
    const auto peer = far.device.create_qp(far_attributes);
    qp->connect(peer->address());
    peer->connect(qp->address());
    qp_ = qp.get();
    list_ = std::move(list);
    cluster_.drive(0, 0, *this);
    cluster_.clock().run_until(1000 * kMicrosecondPs, [] { return true; });
    EXPECT_EQ(completed_, std::count_if(list_.begin(), list_.end(),
                                        [](const SendWr& wr) { return wr.flags & kSignaled; }));
    return completed_ps_;
  }

 private:
  struct Idle final : Steppable {
    bool step() override { return false; }
  };

  bool step() override {
    if (qp_ != nullptr) {
      EXPECT_EQ(qp_->post_send(list_).posted, list_.size());
      qp_ = nullptr;
    }
    std::array<WorkCompletion, 8> completions;
    while (const std::size_t count = near.send_cq->poll(completions)) {
      completed_ += static_cast<std::ptrdiff_t>(count);
      completed_ps_ = cluster_.port(0, 0).cpu().now_ps();
      if (when_complete && completed_ == static_cast<std::ptrdiff_t>(list_.size())) when_complete();
    }
    return false;
  }

  sim::Cluster cluster_;
  Idle idle_;
  QueuePair* qp_ = nullptr;
  std::vector<SendWr> list_;
  std::ptrdiff_t completed_ = 0;
  std::int64_t completed_ps_ = 0;

 public:
  Endpoint near, far;
};

/// With 1 B/ns everywhere, so that every part can be written down.
sim::ClusterParameters round_numbers() {
  sim::ClusterParameters parameters = three_nodes();
  parameters.nic = models::round_nic();
  parameters.cable_ps = 20'000;
  parameters.switch_ps = 100'000;
  return parameters;
}
constexpr std::int64_t kBlueFlameNs = 64 + 20 + 100;  // one block
constexpr std::int64_t kSendNs = 10 + 2 + 150;
constexpr std::int64_t kCrossNs = 20 + 100 + 20;
constexpr std::int64_t kReceiveNs = 160 + 7;
constexpr std::int64_t kCqeNs = 64 + 20 + 200;

TEST(SimulatedLatency, OfAReadIsTheSumOfItsParts) {
  Timed timed(round_numbers());
  const std::int64_t latency_ps = timed.complete_ps({read(1, timed.near.sge(0, 64), timed.far, 0)});
  constexpr std::int64_t kRequestNs = 42 + kCrossNs;
  constexpr std::int64_t kMemoryNs = 20 + (64 + 20) + 500;
  constexpr std::int64_t kResponseNs = 6 + 150 + (30 + 64) + kCrossNs;
  constexpr std::int64_t kLandsNs = 64 + 20;  // in front of its completion on the same lanes
  EXPECT_EQ(latency_ps / 1000, kBlueFlameNs + kSendNs + kRequestNs + kReceiveNs + kMemoryNs + kResponseNs +
                                   kReceiveNs + kLandsNs + kCqeNs);
}

TEST(SimulatedLatency, OfAnInlineWriteIsTheSumOfItsParts) {
  Timed timed(round_numbers());
  const SendWr wr = write(1, timed.near.sge(0, 8), timed.far, 0, kSignaled | kInline);
  const std::int64_t latency_ps = timed.complete_ps({wr});
  constexpr std::int64_t kRequestNs = 42 + 8 + kCrossNs;
  constexpr std::int64_t kWriteNs = 8 + 20;  // posted: the answer does not wait until it is visible
  constexpr std::int64_t kAckNs = 3 + 150 + 30 + kCrossNs;
  EXPECT_EQ(latency_ps / 1000,
            kBlueFlameNs + kSendNs + kRequestNs + kReceiveNs + kWriteNs + kAckNs + (160 + 4) + kCqeNs);
}

/// An ACK that would be back before the payload is visible, which is when it is worked out.
TEST(SimulatedLatency, OfAWriteThatIsVisibleLateCountsNoNegativeTime) {
  sim::ClusterParameters parameters = round_numbers();
  parameters.nic.dma_write_ns = 9000;
  Timed timed(parameters);
  timed.near.fill(0, 8, 1);
  timed.when_complete = [&] { EXPECT_TRUE(timed.far.holds(0, 8, 1)); };
  const SendWr wr = write(1, timed.near.sge(0, 8), timed.far, 0, kSignaled | kInline);
  EXPECT_GE(timed.complete_ps({wr}), 2 * parameters.nic.dma_write_ns * 1000) << "of the payload, of the CQE";
}

TEST(SimulatedLatency, DoesNotDependOnWhoCarriesTheMessages) {
  const auto latency_ps = [](bool message_per_communication, bool reads, std::size_t bytes,
                             double link_gbps) {
    sim::ClusterParameters parameters = three_nodes();
    parameters.nic.link_gbps = link_gbps;
    parameters.nic.dma_write_ns = 100;  // SimGrid takes no ACK that has left already
    parameters.message_per_communication = message_per_communication;
    Timed timed(parameters);
    const SendWr wr = reads ? read(1, timed.near.sge(0, bytes), timed.far, 0)
                            : write(1, timed.near.sge(0, bytes), timed.far, 0, kSignaled);
    return static_cast<double>(timed.complete_ps({wr}));
  };
  for (const double link_gbps : {25.0, 100.0, 400.0}) {  // slower and faster than the slot
    for (const std::size_t bytes : {8U, 512U, 1024U, 1025U, 4096U, 8192U, 16384U}) {
      for (const bool reads : {true, false}) {
        EXPECT_NEAR(latency_ps(true, reads, bytes, link_gbps) / latency_ps(false, reads, bytes, link_gbps), 1,
                    0.01)
            << bytes << " B at " << link_gbps << " Gb/s";
      }
    }
  }
}

TEST(SimulatedLatency, AFenceWaitsForEarlierReads) {
  const auto latency_ps = [](bool with_read, unsigned flags) {
    Timed timed(three_nodes());
    std::vector<SendWr> list;
    if (with_read) list.push_back(read(1, timed.near.sge(0, 64), timed.far, 0));
    list.push_back(write(2, timed.near.sge(64, 64), timed.far, 64, kSignaled | flags));
    return timed.complete_ps(list);
  };
  const std::int64_t write_ps = latency_ps(false, 0);
  EXPECT_EQ(latency_ps(false, kFence), write_ps) << "nothing to wait for";
  EXPECT_LT(latency_ps(true, 0), write_ps * 3 / 2);
  EXPECT_GT(latency_ps(true, kFence), write_ps * 3 / 2);
}

TEST(SimulatedLatency, TheReadWindowBoundsReadsInFlight) {
  const auto latency_ps = [](std::uint8_t window) {
    Timed timed(three_nodes());
    QpInitAttributes attributes;
    attributes.max_rd_atomic = window;
    std::vector<SendWr> list;
    for (unsigned i = 0; i < 16; ++i) list.push_back(read(i, timed.near.sge(i * 8, 8), timed.far, 0));
    return timed.complete_ps(list, attributes);
  };
  EXPECT_GT(latency_ps(1), 5 * latency_ps(16));
  EXPECT_GT(latency_ps(1), latency_ps(2) * 3 / 2);
}

/// A NIC executes one queue pair's requests in order, and an atomic takes it a round trip over PCIe: who
/// takes a lock by CAS and READs the record behind it waits for both.
TEST(SimulatedLatency, AnAtomicWaitsForWhatIsBeforeItAndIsWaitedFor) {
  using Make = std::function<SendWr(Timed&)>;
  const auto latency_ps = [](const Make& first, const Make& second) {
    Timed timed(round_numbers());
    return timed.complete_ps({first(timed), second(timed)});
  };
  const Make read_word = [](Timed& t) { return read(1, t.near.sge(0, 8), t.far, 0); };
  const Make write_word = [](Timed& t) { return write(1, t.near.sge(0, 8), t.far, 0); };
  const Make write_page = [](Timed& t) { return write(1, t.near.sge(4096, 4096), t.far, 4096); };
  const Make cas = [](Timed& t) { return compare_swap(2, t.near.sge(64, 8), t.far, 64, 0, 1); };
  constexpr std::int64_t kMostOfARoundTripPs = 400'000;  // of 500 ns; what goes with it is hidden
  EXPECT_GE(latency_ps(cas, read_word) - latency_ps(read_word, read_word), kMostOfARoundTripPs)
      << "the READ begins when the CAS is done";
  EXPECT_GE(latency_ps(write_page, cas) - latency_ps(write_page, write_word), kMostOfARoundTripPs)
      << "the CAS begins when the page has landed";
}

sim::ClusterParameters late(std::uint64_t seed = 1) {
  sim::ClusterParameters parameters = round_numbers();
  parameters.tear = {20 * kMicrosecondPs, seed};
  return parameters;
}

/// However late the last line is.
TEST(SimulatedLatency, ATornReadIsAnsweredBehindItsLastLine) {
  Timed timed(late());
  timed.far.fill(8192, 4096, 2);
  EXPECT_GE(timed.complete_ps({read(1, timed.near.sge(8192, 4096), timed.far, 8192)}), 20 * kMicrosecondPs);
  EXPECT_TRUE(timed.near.holds(8192, 4096, 2));
}

/// Writes are posted on PCIe: their answers do not wait for memory.
TEST(SimulatedLatency, AWriteAndAnAtomicAreAnsweredBeforeTheTargetsCpusSeeThem) {
  constexpr int kSeeds = 20;
  int seen_later = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Timed timed(late(static_cast<std::uint64_t>(seed)));
    timed.near.fill(0, 4096, 1);
    timed.when_complete = [&] {
      EXPECT_FALSE(timed.far.holds(0, 4096, 1));
      if (timed.far.word(8192) == 0) ++seen_later;
    };
    EXPECT_LT(timed.complete_ps({compare_swap(1, timed.near.sge(8192, 8), timed.far, 8192, 0, 7),
                                 write(2, timed.near.sge(0, 4096), timed.far, 0)}),
              20 * kMicrosecondPs);
    EXPECT_TRUE(timed.far.holds(0, 4096, 1)) << "after a while";
    EXPECT_EQ(timed.far.word(8192), 7U);
  }
  EXPECT_GT(seen_later, kSeeds / 4) << "of swaps";
}

/// The NIC's own READs push them.
TEST(SimulatedLatency, WhatANicReadsHasLanded) {
  Timed timed(late());
  timed.near.set_word(0, 1);
  timed.when_complete = [&timed] {
    EXPECT_EQ(timed.near.word(8192), 1U);
    EXPECT_EQ(timed.far.word(0), 1U);
  };
  EXPECT_LT(timed.complete_ps({write(1, timed.near.sge(0, 8), timed.far, 0),
                               read(2, timed.near.sge(8192, 8), timed.far, 0)}),
            20 * kMicrosecondPs);
}

/// A worker may poll late in a long step, when its clock is ahead of the calendar's: a completion that it can
/// see there still says that the data has landed.
void expect_completion_behind_its_data(const sim::ClusterParameters& parameters) {
  sim::Cluster cluster(parameters);
  Endpoint near(cluster.port(0, 0).device()), far(cluster.port(1, 0).device());
  QpInitAttributes attributes;
  attributes.send_cq = near.send_cq.get();
  attributes.recv_cq = near.recv_cq.get();
  const auto qp = near.device.create_qp(attributes);
  attributes.send_cq = far.send_cq.get();
  attributes.recv_cq = far.recv_cq.get();
  const auto peer = far.device.create_qp(attributes);
  qp->connect(peer->address());
  peer->connect(qp->address());

  struct Worker final : Steppable {
    bool step() override { return work(); }
    std::function<bool()> work;
  };
  Worker sender, receiver;
  const SendWr wr = write_with_imm(1, near.sge(0, 8), far, 0, 1);
  near.set_word(0, 5);
  sender.work = [&, posted = false]() mutable {
    if (!posted) qp->post_send({&wr, 1});
    posted = true;
    std::array<WorkCompletion, 4> completions;
    near.send_cq->poll(completions);
    return false;
  };
  bool seen = false;
  const RecvWr to_take = recv(1, Sge{});
  peer->post_recv({&to_take, 1});
  receiver.work = [&] {
    cluster.port(1, 0).cpu().charge_cycles(100);
    WorkCompletion wc;
    if (far.recv_cq->poll({&wc, 1}) == 0) return !seen;
    seen = true;
    EXPECT_EQ(far.word(0), 5U);
    return false;
  };
  cluster.drive(0, 0, sender);
  cluster.drive(1, 0, receiver);
  cluster.clock().run_until(50 * kMicrosecondPs, [] { return true; });
  EXPECT_TRUE(seen);
}

TEST(SimulatedLatency, ACompletionSeenAheadOfTheCalendarComesBehindItsData) {
  expect_completion_behind_its_data(three_nodes());
}
TEST(SimulatedLatency, ACompletionComesBehindDataThatLandsLate) {
  sim::ClusterParameters parameters = three_nodes();
  parameters.tear = {20 * kMicrosecondPs, 1};
  expect_completion_behind_its_data(parameters);
}

/// The answers that fill a window are known before they are there: a READ posted in between has to be woken
/// by them all the same.
TEST(SimulatedLatency, AReadPostedAtAnyTimeBehindAFullWindowIsSent) {
  for (std::uint64_t later_cycles = 0; later_cycles < 20'000; later_cycles += 500) {
    sim::Cluster cluster(three_nodes());
    Endpoint near(cluster.port(0, 0).device()), far(cluster.port(1, 0).device());
    QpInitAttributes attributes;
    attributes.max_rd_atomic = 1;
    attributes.send_cq = attributes.recv_cq = near.send_cq.get();
    const auto qp = near.device.create_qp(attributes);
    attributes.send_cq = attributes.recv_cq = far.send_cq.get();
    const auto peer = far.device.create_qp(attributes);
    qp->connect(peer->address());
    peer->connect(qp->address());

    struct Reader final : Steppable {
      bool step() override { return work(); }
      std::function<bool()> work;
    } reader;
    unsigned posted = 0;
    std::size_t done = 0;
    reader.work = [&] {
      if (posted < 2) {
        const SendWr wr = read(posted, near.sge(posted * 32768, 16384), far, 0);
        qp->post_send({&wr, 1});
        ++posted;
        cluster.port(0, 0).cpu().charge_cycles(later_cycles);
        return true;
      }
      std::array<WorkCompletion, 4> completions;
      done += near.send_cq->poll(completions);
      return false;
    };
    cluster.drive(0, 0, reader);
    cluster.clock().run_until(100 * kMicrosecondPs, [] { return true; });
    EXPECT_EQ(done, 2U) << later_cycles << " cycles later";
  }
}

}  // namespace
}  // namespace verbtwin::conformance
