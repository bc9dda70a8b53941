// Posting to queues that were made to hold all that is ever outstanding: no post is refused unseen.
//
// Pure functions of the queue pair; used by its thread.
#pragma once

#include <span>
#include <stdexcept>

#include "backend/verbs.hpp"

namespace verbtwin::protocols {

/// Throws std::logic_error where fewer than `requests` were taken and it is the caller's fault. A device that
/// takes nothing any more (PostError::kFailed) is reported by the binding, which ends the run.
inline void check_posted(const PostResult& result, std::size_t requests) {
  if (result.posted == requests || result.error == PostError::kFailed) return;
  throw std::logic_error(result.error == PostError::kQueueFull
                             ? "more requests than their queue was made for"
                             : "a request that the queue pair's state, type or limits forbid");
}

inline void post_all(QueuePair& queue_pair, std::span<const SendWr> list) {
  check_posted(queue_pair.post_send(list), list.size());
}
inline void post_all(QueuePair& queue_pair, std::span<const RecvWr> list) {
  check_posted(queue_pair.post_recv(list), list.size());
}

}  // namespace verbtwin::protocols
