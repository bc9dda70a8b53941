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

  std::span<std::byte> bytes() const { return bytes_; }
  /// Why there are no huge pages, and how to have them; empty where there are.
  const std::string& warning() const { return warning_; }

 private:
  std::span<std::byte> bytes_;
  std::size_t mapped_b_ = 0;
  std::string warning_;
};

}  // namespace verbtwin::ibverbs
