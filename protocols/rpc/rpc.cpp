#include "protocols/rpc/rpc.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace verbtwin::protocols {

void Reply::on_reply(std::span<const std::byte> reply) {
  assert(reply.size() <= buffer_.size());
  size_ = std::min(reply.size(), buffer_.size());
  std::memcpy(buffer_.data(), reply.data(), size_);
  group_->complete(WcStatus::kSuccess);
}

}  // namespace verbtwin::protocols
