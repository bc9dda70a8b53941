#include "protocols/rpc/rpc.hpp"

#include <algorithm>
#include <cassert>

namespace verbtwin::protocols {

void Reply::on_reply(std::span<const std::byte> reply) {
  assert(reply.size() <= buffer_.size());
  size_ = std::min(reply.size(), buffer_.size());
  std::ranges::copy(reply.first(size_), buffer_.begin());  // both may be empty
  group_->complete(WcStatus::kSuccess);
}

}  // namespace verbtwin::protocols
