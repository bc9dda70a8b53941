// NodeArea: the memory of a node that its devices register: on huge pages where the system has them, so that
// a NIC translates an address with 512 times fewer entries.
//
// Owned by the Cluster; any thread may use the bytes. It reads as zeros at first. Throws UserError where
// there is not enough of it. Registered memory is pinned: all of it exists.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace verbtwin::ibverbs {

class NodeArea {
 public:
  explicit NodeArea(std::size_t bytes);
  ~NodeArea();
  NodeArea(const NodeArea&) = delete;
  NodeArea& operator=(const NodeArea&) = delete;

  std::span<std::byte> bytes() const { return mapping_.first(bytes_); }
  /// With the rest of its last huge page. This is what to register: libibverbs' fork-safe mode keeps what is
  /// registered from children page by page, and refuses a part of a huge one (ibv_fork_init(3)).
  std::span<std::byte> mapping() const { return mapping_; }
  /// Why there are no reserved huge pages, and how to have them; empty where there are.
  const std::string& warning() const { return warning_; }

 private:
  std::span<std::byte> mapping_;
  std::size_t bytes_;
  std::string warning_;
};

}  // namespace verbtwin::ibverbs
