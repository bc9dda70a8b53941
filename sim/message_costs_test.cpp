// What a single request takes of the links, engines and lanes it passes, whether somebody waits for it or
// not: with 1 B/ns everywhere a busy nanosecond of a link is a byte on the wire. Latencies are in
// conformance_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/conformance/endpoint.hpp"
#include "models/profiles_for_test.hpp"
#include "sim/cluster.hpp"

namespace verbtwin::sim {
namespace {

using namespace conformance;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr std::int64_t kMicrosecondPs = 1'000'000;
constexpr std::uint32_t kRoceB = 56;

ClusterParameters two_nodes() {
  ClusterParameters p;
  p.shape.nodes = 2;
  p.nic = models::round_nic();
  p.host = models::free_host();
  return p;
}

/// Node 0 posts one request to node 1 at time 0 and nothing else happens.
class Exchange final : private Steppable {
 public:
  using Make = std::function<SendWr(Exchange&)>;

  Exchange(const ClusterParameters& parameters, QpType type, const Make& make, int recvs = 1)
      : cluster_(parameters), near(cluster_.port(0, 0).device()), far(cluster_.port(1, 0).device()) {
    QpInitAttributes attributes;
    attributes.type = type;
    attributes.rnr_retry = 1;
    attributes.max_inline_data = 188;
    attributes.send_cq = attributes.recv_cq = near.send_cq.get();
    from_ = near.device.create_qp(attributes);
    attributes.send_cq = attributes.recv_cq = far.send_cq.get();
    to_ = far.device.create_qp(attributes);
    const bool connected = type != QpType::kUd;
    from_->connect(connected ? to_->address() : QpAddress{});
    to_->connect(connected ? from_->address() : QpAddress{});
    for (int i = 0; i < recvs; ++i) {
      const RecvWr wr = recv(7, far.sge(32'768, 1024));
      to_->post_recv({&wr, 1});
    }
    wr_ = make(*this);
    if (!connected) {
      address_ = near.device.create_ah(to_->address());
      wr_.ah = address_.get();
      wr_.remote_qpn = to_->address().qp_num;
      wr_.remote_qkey = to_->address().qkey;
    }
    cluster_.drive(0, 0, *this);
    target_.queue = far.send_cq.get();
    cluster_.drive(1, 0, target_);
    cluster_.clock().run_until(200 * kMicrosecondPs, [] { return true; });
    usage = cluster_.usage();
    failed = cluster_.transport().failed();
  }

  /// Of each node; of the links without an order.
  std::vector<std::int64_t> busy_ns(std::string_view resource) const {
    return find(usage.resources, resource);
  }
  std::vector<std::int64_t> part_ns(std::string_view part) const { return find(usage.parts, part); }

 private:
  /// Who leaves completions is woken again and again.
  static void take_completions(CompletionQueue& queue) {
    std::array<WorkCompletion, 4> completions;
    while (queue.poll(completions) > 0) {
    }
  }
  struct Target final : Steppable {
    bool step() override {
      take_completions(*queue);
      return false;
    }
    CompletionQueue* queue = nullptr;
  };
  template <typename Items>
  static std::vector<std::int64_t> find(const Items& items, std::string_view name) {
    const auto found = std::ranges::find_if(items, [&](const auto& item) { return item.name == name; });
    std::vector<std::int64_t> result = found->busy_ps;
    for (std::int64_t& ps : result) ps /= 1000;
    return result;
  }
  bool step() override {
    if (!posted_) {
      EXPECT_EQ(from_->post_send({&wr_, 1}).posted, 1U);
      posted_ = true;
    }
    take_completions(*near.send_cq);
    return false;
  }

  Cluster cluster_;
  Target target_;
  bool posted_ = false;
  SendWr wr_;

 public:
  Endpoint near, far;
  Usage usage;
  std::uint64_t failed = 0;

 private:
  std::unique_ptr<QueuePair> from_, to_;
  std::unique_ptr<AddressHandle> address_;
};

SendWr read_of(Exchange& e, std::size_t bytes, unsigned flags = kSignaled) {
  return read(1, e.near.sge(0, bytes), e.far, 0, flags);
}
SendWr write_of(Exchange& e, std::size_t bytes, unsigned flags = kSignaled) {
  return write(1, e.near.sge(0, bytes), e.far, 0, flags);
}
SendWr send_with_imm(Exchange& e) {
  SendWr wr = send(1, e.near.sge(0, 64));
  wr.opcode = Opcode::kSendWithImm;
  return wr;
}

struct Message {
  const char* name;
  QpType type;
  Exchange::Make make;
  std::int64_t request_b, answer_b;  // on an InfiniBand link
  std::int64_t request_packets, answer_packets;
};

std::vector<Message> messages() {
  constexpr std::size_t kThree = std::size_t{3} * 4096;
  const auto rc = QpType::kRc;
  const auto read_long = [](Exchange& e) { return read_of(e, kThree); };
  const auto write_long = [](Exchange& e) { return write_of(e, kThree); };
  const auto cas = [](Exchange& e) { return compare_swap(1, e.near.sge(0, 8), e.far, 0, 0, 1); };
  const auto with_imm = [](Exchange& e) { return write_with_imm(1, e.near.sge(0, 64), e.far, 0, 5); };
  const auto plain = [](Exchange& e) { return send(1, e.near.sge(0, 64)); };
  return {
      {"READ", rc, [](Exchange& e) { return read_of(e, 64); }, 42, 30 + 64, 1, 1},
      {"READ of three packets", rc, read_long, 42, 3 * (26 + 4096) + 4 + 4, 1, 3},
      {"WRITE", rc, [](Exchange& e) { return write_of(e, 64); }, 42 + 64, 30, 1, 1},
      {"unsignalled WRITE", rc, [](Exchange& e) { return write_of(e, 64, 0); }, 42 + 64, 30, 1, 1},
      {"WRITE of three packets", rc, write_long, 3 * (26 + 4096) + 16, 30, 3, 1},
      {"WRITE_WITH_IMM", rc, with_imm, 46 + 64, 30, 1, 1},
      {"SEND", rc, plain, 26 + 64, 30, 1, 1},
      {"SEND_WITH_IMM", rc, send_with_imm, 30 + 64, 30, 1, 1},
      {"CAS", rc, cas, 54, 38, 1, 1},
      {"FAA", rc, [](Exchange& e) { return fetch_add(1, e.near.sge(0, 8), e.far, 0, 1); }, 54, 38, 1, 1},
      {"UC WRITE", QpType::kUc, [](Exchange& e) { return write_of(e, 64); }, 42 + 64, 0, 1, 0},
      {"UD SEND", QpType::kUd, plain, 34 + 64, 0, 1, 0},
      {"UD SEND_WITH_IMM", QpType::kUd, send_with_imm, 38 + 64, 0, 1, 0},
  };
}

/// A request crosses an up-link and a down-link, its answer two others.
TEST(MessageCosts, EveryKindPutsItsBytesOnTheLinks) {
  for (const bool by_simgrid : {false, true}) {
    for (const std::uint32_t extra_b : {0U, kRoceB}) {
      ClusterParameters p = two_nodes();
      p.message_per_communication = by_simgrid;
      p.nic.wire_header_b = extra_b;
      for (const Message& m : messages()) {
        const std::int64_t request_b = m.request_b + m.request_packets * extra_b;
        const std::int64_t answer_b = m.answer_b + m.answer_packets * extra_b;
        EXPECT_THAT(Exchange(p, m.type, m.make).busy_ns("link"),
                    UnorderedElementsAre(request_b, request_b, answer_b, answer_b))
            << m.name << (by_simgrid ? ", SimGrid, " : ", ") << extra_b;
      }
    }
  }
}

/// An unsignalled request saves its completion, nothing else.
TEST(MessageCosts, WhatNobodyWaitsForTakesAllButItsCompletion) {
  for (const auto make : {read_of, write_of}) {
    const auto busy_ns = [&](unsigned flags) {
      const Exchange e(two_nodes(), QpType::kRc, [&](Exchange& x) { return make(x, 64, flags); });
      std::vector<std::vector<std::int64_t>> result;
      for (const char* resource : {"pcie_up", "nic_send", "nic_recv", "nic_contexts", "pcie_down", "link"})
        result.push_back(e.busy_ns(resource));
      return result;
    };
    auto signalled = busy_ns(kSignaled);
    signalled[0][0] -= 64 + 20;
    EXPECT_EQ(busy_ns(0), signalled);
  }
}

/// What completes and what brings data is answered whatever the interval.
TEST(MessageCosts, OnlySomeUnsignalledRequestsAskForAnAck) {
  ClusterParameters p = two_nodes();
  bool brings_data = false;
  const auto answer_ns = [&](const Message& m, std::uint8_t flags) {
    const Exchange e(p, m.type, [&](Exchange& x) {
      SendWr wr = m.make(x);
      wr.flags = flags;
      brings_data = returns_data(wr.opcode);
      return wr;
    });
    return e.busy_ns("nic_recv")[0];  // what it takes who asked
  };
  for (const Message& m : messages()) {
    if (m.type != QpType::kRc) continue;
    p.nic.ack_request_interval = 1;
    const std::int64_t answered_ns = answer_ns(m, 0);
    EXPECT_GE(answered_ns, 4) << m.name;
    EXPECT_EQ(answer_ns(m, kSignaled), answered_ns) << m.name;
    p.nic.ack_request_interval = 2;
    EXPECT_EQ(answer_ns(m, 0), brings_data ? answered_ns : 0) << m.name;
    EXPECT_EQ(answer_ns(m, kSignaled), answered_ns) << m.name;
  }
}

/// What comes over RC takes its target's send engine, whether that asks for an ACK or not, and nothing else
/// does.
TEST(MessageCosts, WhatComesOverRcTakesTheEngineThatSends) {
  for (const int interval : {1, 2}) {
    ClusterParameters p = two_nodes();
    p.nic.ack_request_interval = interval;
    for (const Message& m : messages()) {
      bool brings_data = false;
      const Exchange e(p, m.type, [&](Exchange& x) {
        const SendWr wr = m.make(x);
        brings_data = returns_data(wr.opcode);
        return wr;
      });
      const std::int64_t rc_ns = brings_data ? 6 : 3;
      EXPECT_EQ(e.busy_ns("nic_send")[1], m.type == QpType::kRc ? rc_ns : 0) << m.name;
    }
  }
}

TEST(MessageCosts, AWriteWithImmediateTakesARecv) {
  ClusterParameters p = two_nodes();
  p.nic.recv_imm_ns = 5;
  const Exchange e(p, QpType::kRc,
                   [](Exchange& x) { return write_with_imm(1, x.near.sge(0, 64), x.far, 0, 5); });
  EXPECT_EQ(e.busy_ns("nic_recv")[1], 7 + 5);
  EXPECT_EQ(e.busy_ns("pcie_down")[1], (64 + 20) / 4);
}

TEST(MessageCosts, TheRequestOfALongReadIsOnePacket) {
  const Exchange e(two_nodes(), QpType::kRc, [](Exchange& x) { return read_of(x, std::size_t{3} * 4096); });
  EXPECT_THAT(e.busy_ns("nic_recv"), ElementsAre(3 * 7, 7));
}

TEST(MessageCosts, EveryBlockOfAWqeTakesTheSendEngine) {
  const Exchange e(two_nodes(), QpType::kRc,
                   [](Exchange& x) { return write_of(x, 64, kSignaled | kInline); });
  EXPECT_THAT(e.busy_ns("nic_send"), ElementsAre(10 + 2 * 2, 3)) << "100 B; the target serves it";
}

TEST(MessageCosts, WhateverNamesMemoryIsTranslated) {
  ClusterParameters p = two_nodes();
  p.nic.translation_miss_occupancy_ns = 9;
  for (const Message& m : messages()) {
    const bool names_memory = std::string_view(m.name).find("SEND") == std::string_view::npos;
    EXPECT_THAT(Exchange(p, m.type, m.make).part_ns("mtt_cache"), ElementsAre(0, names_memory ? 9 : 0))
        << m.name;
  }
}

/// On RoCE the packet has a GRH, which goes into the buffer; within an InfiniBand subnet it has none.
TEST(MessageCosts, ADatagramsHeaderIsWrittenWhereThereIsOne) {
  const auto up_ns = [](std::uint32_t extra_b) {
    ClusterParameters p = two_nodes();
    p.nic.wire_header_b = extra_b;
    const Exchange e(p, QpType::kUd, [](Exchange& x) { return send(1, x.near.sge(0, 64)); });
    EXPECT_EQ(e.usage.verbs.recv.bytes, 64U) << "what was sent, whatever stands in front of it";
    return e.busy_ns("pcie_up")[1] - 20 / 4;  // its share of the RECV's fetch
  };
  EXPECT_EQ(up_ns(0), (64 + 20) + (64 + 20));
  EXPECT_EQ(up_ns(kRoceB), (40 + 64 + 20) + (64 + 20));
}

/// One try more is allowed: it and the NAK that asked for it take as much as the last.
TEST(MessageCosts, ASendThatFindsNoRecvIsSentAndRefusedAgain) {
  const Exchange e(
      two_nodes(), QpType::kRc, [](Exchange& x) { return send(1, x.near.sge(0, 64)); }, /*recvs=*/0);
  EXPECT_EQ(e.failed, 1U);
  EXPECT_THAT(e.busy_ns("link"), UnorderedElementsAre(2 * 90, 2 * 90, 2 * 30, 2 * 30));
  EXPECT_THAT(e.busy_ns("nic_send"), ElementsAre(2 * 12, 0));
  EXPECT_THAT(e.busy_ns("nic_recv"), ElementsAre(2 * 4, 2 * 7));
}
TEST(MessageCosts, AWriteThatFindsNoRecvIsReceivedOnceForEachTry) {
  const auto busy_ns = [](QpType type) {
    const Exchange e(
        two_nodes(), type, [](Exchange& x) { return write_with_imm(1, x.near.sge(0, 64), x.far, 0, 5); },
        /*recvs=*/0);
    return e.busy_ns("nic_recv")[1];
  };
  EXPECT_EQ(busy_ns(QpType::kRc), 2 * 7);
  EXPECT_EQ(busy_ns(QpType::kUc), 7);
}

}  // namespace
}  // namespace verbtwin::sim
