// Popularity: what a workload knows of how often its records are looked up.
//
// Implemented by workloads; callable from any thread. It says in closed form, for the millions of records
// that nobody has touched yet, what a cache that has long been in use would hold, and which of them a core's
// caches have room for.
#pragma once

#include <cstdint>
#include <vector>

#include "protocols/checks/history.hpp"

namespace verbtwin::protocols {

/// Records of a table that are looked up as often as each other, or nearly.
struct RecordClass {
  std::uint32_t table = 0;
  std::uint64_t records = 0;  // in the whole cluster
  double drawn = 0;           // how often one of them is looked up, in a unit of the workload's
};

class Popularity {
 public:
  virtual ~Popularity() = default;
  /// All records that may be looked up at other nodes.
  virtual const std::vector<RecordClass>& classes() const = 0;
  /// Its place in classes(); kNoClass: it is in none.
  virtual std::size_t class_of(RecordId record) const = 0;

  static constexpr std::size_t kNoClass = ~std::size_t{0};
};

/// By class: whether its records are popular, drawn more than twice as often as the average.
std::vector<bool> popular_classes(const std::vector<RecordClass>& classes);

}  // namespace verbtwin::protocols
