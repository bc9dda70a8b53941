#include "protocols/checks/history.hpp"

#define XXH_INLINE_ALL  // of known lengths little is left
#include <xxhash.h>

namespace verbtwin::protocols {

std::uint64_t value_digest(std::span<const std::byte> value) {
  return XXH3_64bits(value.data(), value.size());
}

}  // namespace verbtwin::protocols
