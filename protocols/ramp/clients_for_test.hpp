// RampCluster: clients and servers of the RAMP family on the fake backend, for tests that say themselves what
// versions and locks a server has when a client comes. Key k is at node k % nodes; messages are datagrams.
//
// One thread.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "protocols/fake_backend_for_test.hpp"
#include "protocols/ramp/client.hpp"
#include "protocols/ramp/rpc_layers.hpp"
#include "protocols/ramp/server.hpp"

namespace verbtwin::protocols {

class RampCluster {
 public:
  static constexpr std::uint32_t kGroupMax = 4, kValueB = 128;

  explicit RampCluster(const RampOptions& options, int nodes = 2)
      : options_(options),
        shape_{.nodes = nodes},
        layout_(layout(options, nodes)),
        cluster_(shape_, layout_.total_b) {
    for (int node = 0; node < nodes; ++node) nodes_.push_back(std::make_unique<Node>(*this, node));
  }

  /// One attempt of a node's client; true: it committed.
  bool run(int node, const KeyGroup& group, int client = 0) {
    bool committed = false;
    Node& at = *nodes_[index(node)];
    at.worker.spawn(one(*at.clients[index(client)], group, committed));
    for (int i = 0; i < 200 && at.worker.unfinished() > 0; ++i) {
      for (auto& each : nodes_) each->worker.step();
    }
    EXPECT_EQ(at.worker.unfinished(), 0U);
    return committed;
  }

  const RampClient& client(int node, int number = 0) const {
    return *nodes_[index(node)]->clients[index(number)];
  }
  /// Of that client's last transaction.
  RampHistory::Transaction last(int node, int number = 0) const {
    const RampHistory& history = client(node, number).history();
    return history[history.size() - 1];
  }
  VersionStore& versions(std::uint64_t key) { return server_of(key).versions; }
  LockTable& locks(std::uint64_t key) { return server_of(key).locks; }
  std::uint64_t last_version(std::uint64_t key) {
    std::uint64_t timestamp = 0;
    versions(key).read_last(key, [&](const VersionStore::View& view) { timestamp = view.timestamp; });
    return timestamp;
  }
  /// A version of a transaction that wrote `others` too, as RAMP-Fast has it.
  void prepare(std::uint64_t key, std::uint64_t timestamp, std::vector<SiblingKey> others = {}) {
    std::vector<std::byte> value(kValueB);
    fill_value(key, timestamp, value);
    versions(key).prepare(key, timestamp, std::as_bytes(std::span(others)), value, 0);
  }
  void put(std::uint64_t key, std::uint64_t timestamp, std::vector<SiblingKey> others = {}) {
    prepare(key, timestamp, std::move(others));
    versions(key).commit(key, timestamp, 0);
  }
  /// A message that gives back another client's lock.
  void release(std::uint64_t key, std::uint64_t client) {
    Node& at = *nodes_[index(layout_.server_of(key))];
    struct Nobody final : ReplyTarget {
      void on_reply(std::span<const std::byte>) override {}
    } nobody;
    const CommitArguments arguments{0, client, 0, 1};
    put_word(put_head(at.local.call(layout_.server_of(key), id(RampMessage::kRelease),
                                    sizeof arguments + sizeof key, nobody),
                      arguments),
             0, key);
    for (int i = 0; i < 10; ++i) at.worker.step();
  }
  /// What NICs READ of a key.
  std::span<std::byte> place(std::uint64_t key) {
    return cluster_.memory(layout_.server_of(key))
        .local()
        .subspan(layout_.place_offset(layout_.slot_of(key)), layout_.stride_b);
  }
  FakeCpu& cpu(int node) { return static_cast<FakeCpu&>(nodes_[index(node)]->worker.cpu()); }
  FakeFabric& fabric() { return cluster_.fabric(); }
  /// READs and WRITEs.
  std::size_t posted() {
    std::size_t sum = 0;
    for (const FakeQueuePair* qp : fabric().connected_queue_pairs) sum += qp->posted.size();
    return sum;
  }

 private:
  static std::size_t index(int number) { return static_cast<std::size_t>(number); }
  static RampLayout layout(const RampOptions& options, int nodes) {
    constexpr std::uint64_t kKeys = 12, kVersions = 64;
    RampLayout l;
    l.servers = nodes;
    l.keys = kKeys;
    l.value_b = kValueB;
    l.metadata_max_b = options.metadata_b(kGroupMax);
    l.slots = (kKeys + l.servers - 1) / l.servers;
    l.places = l.slots + kVersions;
    l.stride_b = static_cast<std::uint32_t>(whole_lines(l.image_b(l.metadata_max_b)));
    l.worker_b = rpc_bytes(nodes) + kClients * RampClient::landing_bytes(l, kGroupMax);
    l.total_b = l.worker_offset(1);
    return l;
  }
  static RpcOptions datagrams() {
    RpcOptions rpc;
    rpc.packet_b = 1024;
    rpc.coalescing = Shared::kByNone;
    rpc.calls_max = kGroupMax;
    return rpc;
  }
  static std::size_t rpc_bytes(int nodes) {
    return whole_lines(UdRpc::memory_bytes(ClusterShape{.nodes = nodes}, kClients, datagrams()));
  }
  static constexpr int kClients = 2;

  struct Node {
    Node(RampCluster& c, int number)
        : memory(c.cluster_.memory(number).local().subspan(c.layout_.worker_offset(0))),
          worker(c.cluster_.port(number), 1024),
          local(number),
          rpc(worker, kClients, datagrams(), memory.first(rpc_bytes(c.shape_.nodes)), 1),
          store(c.layout_, c.options_, number, 2, c.cluster_.memory(number)),
          server(store, worker),
          addresses(c.layout_, true),
          engine{c.layout_, c.options_, worker, rpc, rpc, local, &addresses, 1, true} {
      server.serve(rpc);
      server.serve(local);
      layers.local = &local;
      layers.datagrams = &rpc;
      layers.attach(worker);
      const std::size_t each_b = RampClient::landing_bytes(c.layout_, kGroupMax);
      for (int i = 0; i < kClients; ++i) {
        const auto landing = memory.subspan(rpc_bytes(c.shape_.nodes) + index(i) * each_b, each_b);
        const auto its_number = static_cast<std::uint64_t>(number * kClients + i);
        clients.push_back(std::make_unique<RampClient>(engine, its_number, kGroupMax, landing));
      }
    }

    std::span<std::byte> memory;
    Worker worker;
    LocalRpc local;
    UdRpc rpc;
    RampServerNode store;
    RampServer server;
    RpcLayers layers;
    AddressCache addresses;
    RampEngine engine;
    std::vector<std::unique_ptr<RampClient>> clients;
  };

  static Task<void> one(RampClient& client, const KeyGroup& group, bool& committed) {
    auto running = client.run(group, 1);
    committed = co_await running;
  }
  RampServerNode& server_of(std::uint64_t key) { return nodes_[index(layout_.server_of(key))]->store; }

  RampOptions options_;
  ClusterShape shape_;
  RampLayout layout_;
  FakeCluster cluster_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace verbtwin::protocols
