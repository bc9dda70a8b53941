// RampServer: one worker's part of a server: the handlers of the RAMP family's messages over the node's
// versions and locks.
//
// Belongs to one Worker and its thread; the store and the lock table are the node's. A lock that is granted
// later may be another worker's to answer for: that worker finds the grant in its mailbox.
#pragma once

#include <cstdint>
#include <vector>

#include "protocols/ramp/lock_table.hpp"
#include "protocols/ramp/messages.hpp"
#include "protocols/ramp/version_store.hpp"
#include "protocols/rpc/rpc.hpp"
#include "protocols/workloads/key_groups.hpp"

namespace verbtwin::protocols {

/// What the workers of a server share.
struct RampServerNode {
  RampServerNode(const RampLayout& layout, const RampOptions& options, int node, int threads,
                 NodeMemory& memory);

  /// Locks granted to requests that came through one worker.
  struct Mailbox {
    std::uint32_t spin = 0;
    std::uint32_t full = 0;  // looked at without the lock
    std::vector<LockClaim> granted;
  };

  const RampLayout& layout;
  const RampOptions& options;
  VersionStore versions;
  LockTable locks;
  std::vector<Mailbox> mailboxes;  // by thread
};

class RampServer {
 public:
  RampServer(RampServerNode& node, Worker& worker) : node_(node), worker_(worker), cpu_(worker.cpu()) {}
  RampServer(const RampServer&) = delete;

  /// Serves what comes through `rpc`, which this worker owns.
  void serve(Rpc& rpc);
  /// Answers for locks that other workers granted. True: there were any.
  bool take_grants();

 private:
  struct Door {
    RampServer* server;
    Rpc* rpc;
  };
  template <void (RampServer::*handle)(Rpc&, const RpcCall&)>
  static void entry(void* context, const RpcCall& call) {
    const Door& door = *static_cast<const Door*>(context);
    (door.server->*handle)(*door.rpc, call);
  }

  void get_last(Rpc& rpc, const RpcCall& call);
  void get_time(Rpc& rpc, const RpcCall& call);
  void get_newest_of(Rpc& rpc, const RpcCall& call);
  void prepare(Rpc& rpc, const RpcCall& call);
  void commit(Rpc& rpc, const RpcCall& call);
  void lock(Rpc& rpc, const RpcCall& call);
  void release(Rpc& rpc, const RpcCall& call);

  void answer(Rpc& rpc, const RpcOrigin& origin, std::uint64_t key, const VersionStore::View& view,
              bool with_value);
  void refuse(Rpc& rpc, const RpcOrigin& origin, RampStatus status);
  void answer_granted(const LockClaim& request);
  void release_key(std::uint64_t key, std::uint64_t client);

  RampServerNode& node_;
  Worker& worker_;
  Cpu& cpu_;
  std::vector<std::unique_ptr<Door>> doors_;
  std::vector<LockClaim> granted_;
  std::vector<std::uint64_t> timestamps_;
};

}  // namespace verbtwin::protocols
