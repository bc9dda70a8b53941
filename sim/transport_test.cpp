#include "sim/transport.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "models/profiles_for_test.hpp"
#include "sim/cluster.hpp"

namespace verbtwin::sim {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kMicrosecondPs = 1'000'000;
constexpr std::uint64_t kMicrosecondCycles = 2'000;

/// A worker of node 0 that sends to node 1 when it begins, and then notes what completes, and when.
class Sender final : public Steppable {
 public:
  Sender(Cluster& cluster, int thread) : port_(cluster.port(0, thread)), cq_(port_.device().create_cq(128)) {
    port_.use_queue_pairs({.send_cq = cq_.get(), .recv_cq = cq_.get()});
  }
  bool step() override {
    if (begin) std::exchange(begin, {})(*this);
    WorkCompletion wc;
    while (cq_->poll({&wc, 1}) == 1) {
      statuses.push_back(wc.status);
      ids.push_back(wc.wr_id);
      last_ps = port_.cpu().now_ps();
    }
    return false;
  }
  void charge_us(std::uint64_t us) { port_.cpu().charge_cycles(us * kMicrosecondCycles); }
  void write(int times, std::uint32_t bytes, std::uint32_t key_off_by = 0) {
    post(Opcode::kRdmaWrite, times, bytes, key_off_by);
  }
  void read(std::uint32_t bytes) { post(Opcode::kRdmaRead, 1, bytes, 0); }
  void send(std::uint32_t bytes) { post(Opcode::kSend, 1, bytes, 0); }
  /// To nobody: a queue pair number that is none.
  void send_datagrams(int times, std::uint32_t bytes) {
    QpInitAttributes attributes;
    attributes.type = QpType::kUd;
    attributes.send_cq = attributes.recv_cq = cq_.get();
    attributes.max_send_wr = 128;
    datagrams_ = port_.device().create_qp(attributes);
    datagrams_->connect({});
    QpAddress target = datagrams_->address();
    target.lid = 2;  // node 1's port
    address_ = port_.device().create_ah(target);
    SendWr wr;
    wr.flags = kSignaled;
    wr.sge = {port_.memory().local().data(), bytes, port_.memory().lkey()};
    wr.ah = address_.get();
    wr.remote_qpn = 1000;
    datagrams_->post_send(std::vector<SendWr>(static_cast<std::size_t>(times), wr));
  }

  std::function<void(Sender&)> begin;
  std::vector<WcStatus> statuses;
  std::vector<std::uint64_t> ids;  // of requests to memory: from 0 on, as posted
  std::int64_t last_ps = 0;

 private:
  void post(Opcode opcode, int times, std::uint32_t bytes, std::uint32_t key_off_by) {
    const RemoteMemory remote = port_.memory().remote(1, 0);
    SendWr wr;
    wr.opcode = opcode;
    wr.flags = kSignaled;
    wr.sge = {port_.memory().local().data(), bytes, port_.memory().lkey()};
    wr.remote_addr = remote.addr;
    wr.rkey = remote.rkey + key_off_by;
    std::vector<SendWr> list(static_cast<std::size_t>(times), wr);
    for (SendWr& each : list) each.wr_id = posted_++;
    port_.connected_queue_pair(1, 0, 0).post_send(list);
  }

  std::uint64_t posted_ = 0;
  WorkerPort& port_;
  std::unique_ptr<CompletionQueue> cq_;
  std::unique_ptr<QueuePair> datagrams_;
  std::unique_ptr<AddressHandle> address_;
};

struct Senders {
  explicit Senders(const ClusterParameters& its_parameters = parameters())
      : cluster(its_parameters), first(cluster, 0), second(cluster, 1) {
    for (int thread = 0; thread < 2; ++thread) {
      WorkerPort& target = cluster.port(1, thread);
      CompletionQueue* cq = target_cqs.emplace_back(target.device().create_cq(128)).get();
      target.use_queue_pairs({.send_cq = cq, .recv_cq = cq});
    }
  }
  static ClusterParameters parameters() {
    ClusterParameters p;
    p.shape.nodes = 2;
    p.shape.threads = 2;
    p.nic = models::round_nic();
    p.host = models::free_host();
    p.host.clock_ghz = 2;
    return p;
  }
  void run() {
    cluster.drive(0, 0, first);
    cluster.drive(0, 1, second);
    cluster.clock().run_until(1000 * kMicrosecondPs, [] { return true; });
  }
  Cluster cluster;
  Sender first, second;
  std::vector<std::unique_ptr<CompletionQueue>> target_cqs;
};

/// When a worker's small WRITE at 5 us has completed, beside another that does this.
std::int64_t small_write_ps(const std::function<void(Sender&)>& beside) {
  Senders senders;
  senders.first.begin = beside;
  senders.second.begin = [](Sender& s) {
    s.charge_us(5);
    s.write(1, 8);
  };
  senders.run();
  return senders.second.last_ps;
}

TEST(Transport, WhatACoreWillSendLaterStandsInFrontOfNobody) {
  const std::int64_t alone_ps = small_write_ps({});
  EXPECT_GT(alone_ps, 5 * kMicrosecondPs);
  EXPECT_GT(small_write_ps([](Sender& s) {
              s.charge_us(5);
              s.write(100, 4096);
            }),
            alone_ps + 5 * kMicrosecondPs)
      << "what is sent at the same time is in the way";
  EXPECT_EQ(small_write_ps([](Sender& s) {
              s.charge_us(50);
              s.write(100, 4096);
            }),
            alone_ps);
  EXPECT_EQ(small_write_ps([](Sender& s) {
              s.charge_us(2);
              s.write(1, 8);
              s.charge_us(48);
              s.write(100, 4096);
            }),
            alone_ps)
      << "nor does what follows a doorbell of its step by far";
}

TEST(Transport, TheRequestOfAReadPassesBetweenThePacketsOfAMessage) {
  const auto read_ps = [](bool beside_a_message) {
    Senders senders;
    if (beside_a_message) senders.first.begin = [](Sender& s) { s.write(2, 65536); };
    senders.second.begin = [](Sender& s) {
      s.charge_us(20);
      s.read(8);
    };
    senders.run();
    return senders.second.last_ps;
  };
  EXPECT_LT(read_ps(true) - read_ps(false), kMicrosecondPs) << "they take the link for 131 us";
}

/// How long 4,096 B take that a worker sends alone, in packets of so many bytes.
std::int64_t alone_ns(Opcode opcode, double mtu_b) {
  ClusterParameters p = Senders::parameters();
  p.nic.mtu_b = mtu_b;
  Senders senders(p);
  WorkerPort& target = senders.cluster.port(1, 0);
  const std::span<std::byte> buffer = target.memory().local();
  const RecvWr recv{.wr_id = 0, .sge = {buffer.data(), 4096, target.memory().lkey()}};
  target.connected_queue_pair(0, 0, 0).post_recv({&recv, 1});
  struct Receiver final : Steppable {
    explicit Receiver(CompletionQueue& queue) : cq(queue) {}
    bool step() override { return cq.poll({&wc, 1}) == 1; }
    CompletionQueue& cq;
    WorkCompletion wc;
  } receiver(*senders.target_cqs[0]);
  senders.cluster.drive(1, 0, receiver);
  senders.first.begin = [opcode](Sender& s) {
    if (opcode == Opcode::kRdmaRead) s.read(4096);
    if (opcode == Opcode::kRdmaWrite) s.write(1, 4096);
    if (opcode == Opcode::kSend) s.send(4096);
  };
  senders.run();
  EXPECT_THAT(senders.first.statuses, ElementsAre(WcStatus::kSuccess));
  return senders.first.last_ps / 1000;
}

TEST(Transport, PacketsOfAMessagePassTheNicsSideBySide) {
  for (const Opcode opcode : {Opcode::kRdmaRead, Opcode::kRdmaWrite, Opcode::kSend}) {
    const std::int64_t whole_ns = alone_ns(opcode, 4096), packets_ns = alone_ns(opcode, 256);
    // 1 B/ns: PCIe, the link and PCIe again take 4.1 us and more each, and a packet's headers beside them.
    EXPECT_GT(whole_ns, 3 * 4096);
    EXPECT_LT(packets_ns, 4096 + 3 * 256 + 3000)
        << "one of them whole, the others for a packet, and latencies";
    EXPECT_GT(packets_ns, 4096 + 2 * 256);
  }
}

TEST(Transport, ADoorbellIsHeardAtItsTime) {
  Senders senders;
  const auto send_after = [](std::uint64_t us) {
    return [us](Sender& s) {
      s.charge_us(us);
      s.write(3, 64);
    };
  };
  senders.first.begin = send_after(0);
  senders.second.begin = send_after(40);
  senders.run();
  EXPECT_EQ(senders.second.statuses.size(), 3U);
  EXPECT_EQ(senders.second.last_ps - senders.first.last_ps, 40 * kMicrosecondPs);
}

TEST(Transport, DatagramsAreDoneWhenTheyHaveLeftThePort) {
  ClusterParameters p = Senders::parameters();
  p.nic.link_gbps = 1;
  Senders senders(p);
  senders.first.begin = [](Sender& s) { s.send_datagrams(50, 4096); };
  senders.run();
  EXPECT_NEAR(static_cast<double>(senders.first.statuses.size()), 30, 1) << "33 us each, in a millisecond";
}

/// When a READ that is posted `after_us` behind another, over a queue pair that takes one at a time, is done.
std::int64_t second_read_ps(std::uint64_t after_us) {
  ClusterParameters p = Senders::parameters();
  p.nic.max_rd_atomic = 1;
  p.nic.mmio_ns = 4000;
  Senders senders(p);
  senders.first.begin = [&](Sender& s) {
    s.read(8);
    s.charge_us(after_us);
    s.read(8);
  };
  senders.run();
  return senders.first.last_ps;
}

TEST(Transport, AReadThatWaitedForAnotherStillNeedsItsDoorbellAndItsWqe) {
  const std::int64_t idle_ps = second_read_ps(100) - 100 * kMicrosecondPs;
  for (std::uint64_t us = 1; us < 10; ++us) {
    EXPECT_GE(second_read_ps(us) - static_cast<std::int64_t>(us) * kMicrosecondPs, idle_ps) << us;
  }
}

/// What the checks of torn reads rest on: without it they would find nothing because nothing is torn.
TEST(Transport, TheLinesOfATornReadAreReadAtTimesOfTheirOwn) {
  ClusterParameters p = Senders::parameters();
  p.tear = {20 * kMicrosecondPs, 1};
  Senders senders(p);
  struct Writer final : Steppable {
    bool step() override {
      if (!std::exchange(waited, true)) {
        cpu->charge_cycles(16 * kMicrosecondCycles);
        return true;
      }
      std::ranges::fill(record, std::byte{1});
      return false;
    }
    Cpu* cpu = nullptr;
    std::span<std::byte> record;
    bool waited = false;
  } writer;
  writer.cpu = &senders.cluster.port(0, 1).cpu();
  writer.record = senders.cluster.memory(1).local().first(4096);
  senders.first.begin = [](Sender& s) { s.read(4096); };
  senders.cluster.drive(0, 0, senders.first);
  senders.cluster.drive(0, 1, writer);
  senders.cluster.clock().run_until(100 * kMicrosecondPs, [] { return true; });
  ASSERT_THAT(senders.first.statuses, ElementsAre(WcStatus::kSuccess));
  int newer = 0;
  for (std::size_t at = 0; at < 4096; at += 64) {
    const std::span<const std::byte> line = senders.cluster.memory(0).local().subspan(at, 64);
    newer += line[0] == std::byte{1};
    EXPECT_EQ(std::ranges::count(line, line[0]), 64) << "a line is whole";
  }
  EXPECT_GT(newer, 64 / 4);
  EXPECT_LT(newer, 64 * 3 / 4);
}

TEST(Transport, WhatWaitsForItsDoorbellWhenTheQueuePairFailsIsFlushed) {
  Senders senders;
  senders.first.begin = [](Sender& s) {
    s.write(1, 8, 1);  // no such key: the refusal comes in long before the next doorbell
    s.charge_us(50);
    s.write(2, 8);
  };
  senders.run();
  EXPECT_THAT(senders.first.statuses,
              ElementsAre(WcStatus::kRemAccessErr, WcStatus::kWrFlushErr, WcStatus::kWrFlushErr));
}

/// More than its port sends at once: the first fails when some of the others are on their way and some wait.
TEST(Transport, WhatWaitsForItsPortWhenTheQueuePairFailsIsFlushedInOrder) {
  Senders senders;
  senders.first.begin = [](Sender& s) {
    s.write(1, 8, 1);
    s.write(30, 65536);
    s.charge_us(50);  // it has failed when these are posted
    s.write(2, 8);
  };
  senders.second.begin = [](Sender& s) { s.write(3, 65536); };  // another queue pair's are not
  senders.run();
  std::vector<WcStatus> expected(33, WcStatus::kWrFlushErr);
  expected.front() = WcStatus::kRemAccessErr;
  EXPECT_EQ(senders.first.statuses, expected);
  EXPECT_TRUE(std::ranges::is_sorted(senders.first.ids));
  EXPECT_THAT(senders.second.statuses,
              ElementsAre(WcStatus::kSuccess, WcStatus::kSuccess, WcStatus::kSuccess));
}

/// They are on their way when it fails, and nobody answers them: no time-out has to tell.
TEST(Transport, RequestsBehindOneThatFailedAreFlushedWithIt) {
  for (const std::uint32_t bytes_before : {8U, 65536U}) {
    Senders senders;
    senders.first.begin = [bytes_before](Sender& s) {
      s.read(bytes_before);
      s.write(1, 8, 1);
      s.read(8);
      s.write(2, 8);
    };
    senders.run();
    using enum WcStatus;
    EXPECT_THAT(senders.first.statuses,
                ElementsAre(kSuccess, kRemAccessErr, kWrFlushErr, kWrFlushErr, kWrFlushErr));
    EXPECT_THAT(senders.first.ids, ElementsAre(0, 1, 2, 3, 4));
    EXPECT_LT(senders.first.last_ps, (bytes_before / 1000 * 2 + 20) * kMicrosecondPs);
  }
}

/// Answers that are known of before anybody waits, and there when some do: whoever waits second goes as well.
TEST(Transport, EveryReadThatWaitsForTheWindowGetsItsTurn) {
  for (std::uint64_t us = 0; us < 300; us += 5) {
    Senders senders;
    senders.first.begin = [us](Sender& s) {
      for (int i = 0; i < 16; ++i) s.read(16384);  // the window, 16 us each
      s.charge_us(us);
      for (int i = 0; i < 3; ++i) s.read(64);
    };
    senders.run();
    EXPECT_EQ(senders.first.statuses, std::vector<WcStatus>(19, WcStatus::kSuccess)) << us;
  }
}

/// Some wait for the READ window, others behind them for the port that another queue pair's take: a request
/// posted when the window is the only thing to wait for stands behind both.
TEST(Transport, RequestsOfAQueuePairDoNotOvertakeEachOther) {
  ClusterParameters p = Senders::parameters();
  p.nic.max_rd_atomic = 1;
  for (std::uint64_t us = 0; us < 150; us += 5) {
    Senders senders(p);
    senders.first.begin = [us](Sender& s) {
      s.charge_us(20);
      s.read(16384);  // for 16 us
      s.read(8);
      s.charge_us(20);
      s.write(1, 8);
      s.charge_us(us);
      s.write(1, 8);
    };
    senders.second.begin = [](Sender& s) {
      s.write(16, 8000);
      s.charge_us(30);
      s.write(16, 8000);
    };
    senders.run();
    EXPECT_THAT(senders.first.ids, ElementsAre(0, 1, 2, 3)) << us;
  }
}

/// A SEND takes its RECV in its turn at the engine, a WRITE has had its own when it lands.
TEST(Transport, AnUnreliableWriteLandsBehindTheSendsBeforeIt) {
  struct Receiver final : Steppable {
    explicit Receiver(Cluster& cluster) : port(cluster.port(1, 0)), cq(port.device().create_cq(16)) {
      port.use_queue_pairs({.type = QpType::kUc, .send_cq = cq.get(), .recv_cq = cq.get()});
      const RecvWr recv{0, {port.memory().local().data(), 64, port.memory().lkey()}};
      port.connected_queue_pair(0, 0, 0).post_recv(std::vector<RecvWr>(4, recv));
    }
    bool step() override {
      for (WorkCompletion wc; cq->poll({&wc, 1}) == 1;) opcodes.push_back(wc.opcode);
      return false;
    }
    WorkerPort& port;
    std::unique_ptr<CompletionQueue> cq;
    std::vector<WcOpcode> opcodes;
  };
  ClusterParameters p = Senders::parameters();
  p.nic.recv_packet_ns = 5000;
  Senders senders(p);
  WorkerPort& port = senders.cluster.port(0, 0);
  const auto cq = port.device().create_cq(16);
  port.use_queue_pairs({.type = QpType::kUc, .send_cq = cq.get(), .recv_cq = cq.get()});
  Receiver receiver(senders.cluster);
  senders.cluster.drive(1, 0, receiver);
  senders.first.begin = [&port](Sender&) {
    SendWr send;
    send.opcode = Opcode::kSend;
    send.sge = {port.memory().local().data(), 8, port.memory().lkey()};
    SendWr write = send;
    write.opcode = Opcode::kRdmaWriteWithImm;
    write.remote_addr = port.memory().remote(1, 0).addr;
    write.rkey = port.memory().remote(1, 0).rkey;
    port.connected_queue_pair(1, 0, 0).post_send(std::vector<SendWr>{send, send, write, send});
  };
  senders.run();
  EXPECT_THAT(receiver.opcodes,
              ElementsAre(WcOpcode::kRecv, WcOpcode::kRecv, WcOpcode::kRecvRdmaWithImm, WcOpcode::kRecv));
}

/// A NIC does not put an answer behind all that its own threads have posted.
TEST(Transport, AnAnswerDoesNotWaitForAllThatIsPosted) {
  const auto read_us = [](bool with_writes) {
    Senders senders;
    struct Writer final : Steppable {
      explicit Writer(Cluster& cluster) : port(cluster.port(1, 0)), cq(port.device().create_cq(128)) {
        port.use_queue_pairs({.send_cq = cq.get(), .recv_cq = cq.get()});
      }
      bool step() override {
        if (std::exchange(done, true)) return false;
        const RemoteMemory remote = port.memory().remote(0, 0);
        SendWr wr;
        wr.opcode = Opcode::kRdmaWrite;
        wr.sge = {port.memory().local().data(), 65536, port.memory().lkey()};
        wr.remote_addr = remote.addr;
        wr.rkey = remote.rkey;
        port.connected_queue_pair(0, 0, 0).post_send(std::vector<SendWr>(60, wr));
        return false;
      }
      WorkerPort& port;
      std::unique_ptr<CompletionQueue> cq;
      bool done = false;
    } writer(senders.cluster);
    if (with_writes) senders.cluster.drive(1, 0, writer);
    senders.first.begin = [](Sender& s) {
      s.charge_us(20);
      s.read(64);
    };
    senders.run();
    EXPECT_THAT(senders.first.statuses, ElementsAre(WcStatus::kSuccess));
    return static_cast<double>(senders.first.last_ps) / 1e6;
  };
  const double write_us = 65536.0 / 1000;  // on round_nic's link, 1 ns a byte
  EXPECT_LT(read_us(true), read_us(false) + 8 * write_us) << "60 stand in the send queue";
  EXPECT_GT(read_us(true), read_us(false) + write_us / 2) << "some are under way";
}

}  // namespace
}  // namespace verbtwin::sim
