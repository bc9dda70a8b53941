// Loads that both a simulated cluster and a QueueNetwork can carry: threads that have so many requests under
// way each, the next one posted to a random other machine when one completes. Nothing costs CPU time.
//
// Owned by a test; one thread. Times in picoseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <pcg_random.hpp>

#include "models/wqe.hpp"
#include "sim/actor_for_test.hpp"
#include "sim/queue_network_for_test.hpp"

namespace verbtwin::sim {

struct QueueLoad {
  using Verb = QueueNetwork::Verb;
  /// Who asks whom: everybody the others, the others machine 0, machine 0 the others.
  enum class Pattern : std::uint8_t { kAll, kInbound, kOutbound };

  models::NicProfile nic = models::round_nic();
  std::vector<Verb> verbs = {Verb::kRead};  // of the threads, by turns
  std::uint32_t bytes = 64;
  bool is_inline = false;  // WRITEs and SENDs
  int machines = 2, threads = 1, window = 1;
  Pattern pattern = Pattern::kAll;
  std::int64_t warmup_ps = 50'000'000, measure_ps = 100'000'000;

  bool asks(int machine) const {
    if (pattern == Pattern::kAll) return true;
    return (machine == 0) == (pattern == Pattern::kOutbound);
  }
  Verb verb(int thread) const { return verbs[static_cast<std::size_t>(thread) % verbs.size()]; }
  bool has_datagrams() const { return std::ranges::find(verbs, Verb::kDatagram) != verbs.end(); }
  std::int64_t end_ps() const { return warmup_ps + measure_ps; }
};

/// Requests done in the window, by the machine that posted them.
using Completed = std::vector<std::int64_t>;

/// The targets of one thread's requests.
class Targets {
 public:
  Targets(const QueueLoad& load, int machine, int thread)
      : load_(load),
        machine_(machine),
        random_(static_cast<std::uint64_t>(machine), static_cast<std::uint64_t>(thread)) {}
  int next() {
    if (load_.pattern == QueueLoad::Pattern::kInbound) return 0;
    const auto other = static_cast<int>(random_(static_cast<std::uint32_t>(load_.machines - 1)));
    return other < machine_ ? other : other + 1;
  }
  std::uint64_t next_word() { return random_(kWords) * 8ULL; }

 private:
  static constexpr std::uint32_t kWords = 1 << 16;

  const QueueLoad& load_;
  int machine_;
  pcg32 random_;
};

inline Completed carried_by_queues(const QueueLoad& load) {
  const ClusterParameters star;
  QueueNetwork network(load.nic, star.cable_ps, star.switch_ps, load.machines);
  Completed completed(static_cast<std::size_t>(load.machines));
  std::vector<std::unique_ptr<Targets>> targets;
  std::function<void(int, int, Targets&)> post = [&](int machine, int thread, Targets& to) {
    const int peer = to.next();
    const QueueLoad::Verb verb = load.verb(thread);
    const std::uint64_t word = verb == QueueLoad::Verb::kCompareAndSwap ? to.next_word() : 0;
    std::function<void()> done = [&, machine, thread] {
      if (network.now_ps() > load.warmup_ps) ++completed[static_cast<std::size_t>(machine)];
      post(machine, thread, to);
    };
    if (verb == QueueLoad::Verb::kDatagram) {
      done = [&, machine, peer, thread, done] {
        network.post(QueueLoad::Verb::kDatagram, peer, machine, thread, 0, load.bytes, load.is_inline, done);
      };
    }
    network.post(verb, machine, peer, thread, word, load.bytes, load.is_inline, done);
  };
  for (int machine = 0; machine < load.machines; ++machine)
    for (int thread = 0; load.asks(machine) && thread < load.threads; ++thread) {
      targets.push_back(std::make_unique<Targets>(load, machine, thread));
      for (int i = 0; i < load.window; ++i) post(machine, thread, *targets.back());
    }
  network.run_until(load.end_ps());
  return completed;
}

/// A thread of a simulated cluster that has its window under way, or that answers datagrams.
class LoadThread {
 public:
  LoadThread(const QueueLoad& load, Cluster& cluster, int machine, int thread, std::int64_t& completed)
      : load_(load),
        verb_(load.verb(thread % load.threads)),
        actor_(cluster, machine, attributes_of(load), thread),
        targets_(load, machine, thread),
        completed_(completed) {
    actor_.on_completion = [this](const WorkCompletion& wc) { handle(wc); };
    if (verb_ != QueueLoad::Verb::kDatagram) return;
    datagrams_.emplace(actor_, kRecvs);
    actor_.post_recvs(*datagrams_->queue_pair, kRecvs);
  }
  /// Begins with a window of requests; of datagrams, to these threads, by machine.
  void ask(std::vector<LoadThread*> servers) {
    peers_ = std::move(servers);
    actor_.begin = [this](Actor&) {
      for (int i = 0; i < load_.window; ++i) post();
    };
  }
  /// Answers the datagrams of these.
  void serve(std::vector<LoadThread*> clients) {
    peers_ = std::move(clients);
    is_server_ = true;
  }
  void post_recvs() {
    for (int machine = 0; machine < load_.machines; ++machine)
      if (machine != actor_.port.node()) actor_.post_recvs(actor_.queue_pair(machine), kRecvs);
  }

 private:
  static constexpr std::uint32_t kRecvs = 1024;

  static QpInitAttributes attributes_of(const QueueLoad& load) {
    QpInitAttributes attributes;
    attributes.max_send_wr = static_cast<std::uint32_t>(load.nic.max_send_wr);
    attributes.max_recv_wr = kRecvs;
    attributes.max_inline_data = static_cast<std::uint32_t>(load.nic.max_inline_b);
    return attributes;
  }
  void handle(const WorkCompletion& wc) {
    EXPECT_EQ(wc.status, WcStatus::kSuccess);
    const bool received = wc.opcode == WcOpcode::kRecv;
    if (verb_ == QueueLoad::Verb::kDatagram) {
      if (!received) return;
      actor_.post_recvs(*datagrams_->queue_pair, 1);
      is_server_ ? send(machine_of(wc.src_qp)) : count();
    } else if (received) {
      for (int machine = 0; machine < load_.machines; ++machine)
        if (machine != actor_.port.node() && actor_.queue_pair(machine).address().qp_num == wc.qp_num)
          actor_.post_recvs(actor_.queue_pair(machine), 1);
    } else {
      count();
    }
  }
  void count() {
    if (actor_.port.cpu().now_ps() > load_.warmup_ps) ++completed_;
    post();
  }
  void post() {
    const int to = targets_.next();
    using enum QueueNetwork::Verb;
    if (verb_ == kDatagram) return send(to);
    if (verb_ == kCompareAndSwap) {
      SendWr wr = actor_.request(Opcode::kAtomicCmpAndSwp, 8, to);
      wr.remote_addr += targets_.next_word();
      return actor_.post(actor_.queue_pair(to), wr);
    }
    const Opcode op = verb_ == kRead    ? Opcode::kRdmaRead
                      : verb_ == kWrite ? Opcode::kRdmaWrite
                                        : Opcode::kSend;
    actor_.post(op, load_.bytes, to, 1, kSignaled | inline_flag());
  }
  unsigned inline_flag() const {
    return load_.is_inline && verb_ != QueueLoad::Verb::kRead ? unsigned{kInline} : 0U;
  }
  int machine_of(std::uint32_t qp_num) const {
    const auto peer = std::ranges::find(
        peers_, qp_num, [](const LoadThread* of) { return of->datagrams_->queue_pair->address().qp_num; });
    return static_cast<int>(peer - peers_.begin());
  }
  /// Few completions, that the send queue does not fill.
  void send(int machine) {
    const LoadThread& to = *peers_[static_cast<std::size_t>(machine)];
    const unsigned signaled = ++sent_ % 1024 == 0 ? unsigned{kSignaled} : 0U;
    actor_.post(*datagrams_->queue_pair,
                datagrams_->to(*to.datagrams_, load_.bytes, signaled | inline_flag()));
  }

  const QueueLoad& load_;
  QueueLoad::Verb verb_;
  Actor actor_;
  Targets targets_;
  std::int64_t& completed_;
  bool is_server_ = false;
  std::optional<Datagrams> datagrams_;
  std::vector<LoadThread*> peers_;
  std::uint64_t sent_ = 0;
};

inline Completed carried_by_cluster(const QueueLoad& load) {
  const bool datagrams = load.has_datagrams();
  const int kinds = datagrams ? 2 : 1;  // of threads: servers stand behind clients
  ClusterParameters parameters = round_cluster(load.machines, load.threads * kinds);
  parameters.nic = load.nic;
  Cluster cluster(parameters);
  Completed completed(static_cast<std::size_t>(load.machines));
  std::vector<std::vector<std::unique_ptr<LoadThread>>> threads(
      static_cast<std::size_t>(load.threads * kinds));
  for (int machine = 0; machine < load.machines; ++machine)
    for (std::size_t thread = 0; thread < threads.size(); ++thread)
      threads[thread].push_back(std::make_unique<LoadThread>(load, cluster, machine, static_cast<int>(thread),
                                                             completed[static_cast<std::size_t>(machine)]));
  const auto all_of = [&](std::size_t thread) {
    std::vector<LoadThread*> all;
    for (const auto& each : threads[thread]) all.push_back(each.get());
    return all;
  };
  const auto clients = static_cast<std::size_t>(load.threads);
  for (std::size_t thread = 0; thread < clients; ++thread)
    for (std::size_t machine = 0; machine < threads[thread].size(); ++machine) {
      if (load.asks(static_cast<int>(machine)))
        threads[thread][machine]->ask(datagrams ? all_of(clients + thread) : std::vector<LoadThread*>());
      if (datagrams) threads[clients + thread][machine]->serve(all_of(thread));
      if (load.verb(static_cast<int>(thread)) == QueueLoad::Verb::kSend)
        threads[thread][machine]->post_recvs();
    }
  cluster.clock().run_until(load.end_ps(), [] { return true; });
  return completed;
}

}  // namespace verbtwin::sim
