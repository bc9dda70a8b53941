// Links: this rank's connections to the others, by rank (rank 0 has one to each, another rank one to rank 0),
// and the waiting for what they bring.
//
// Owned by the rendezvous; one thread. Bytes move only while a function here waits or polls. A link that was
// lost is data (`Link::lost`); give_up() may throw std::system_error.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/ibverbs/link.hpp"

namespace verbtwin::ibverbs {

class Links {
 public:
  using Clock = std::chrono::steady_clock;

  /// `stop`: the run is told to stop; nullptr: it never is.
  Links(int rank, int ranks, const std::atomic<bool>* stop)
      : waits_for_all_(rank == 0), stop_(stop), links_(static_cast<std::size_t>(ranks)) {}
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  boost::asio::io_context& io() { return io_; }
  std::size_t ranks() const { return links_.size(); }
  /// nullptr: none to that rank, or not yet.
  std::shared_ptr<Link>& operator[](std::size_t rank) { return links_[rank]; }
  bool stopped() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }

  template <typename Predicate>
  bool all(const Predicate& holds) const {
    return std::all_of(links_.begin(), links_.end(),
                       [&](const auto& link) { return link == nullptr || holds(*link); });
  }

  /// Moves what can move now.
  void poll();
  /// Until `done` holds; false: it did not before the deadline.
  bool wait(const std::function<bool()>& done, Clock::time_point deadline);
  /// The same, but time in which bytes move does not count. Once the run is told to stop, rank 0 has less
  /// patience.
  bool wait_while_moving(const std::function<bool()>& done, std::chrono::milliseconds patience);
  /// Until all is sent, or patience is at its end.
  void flush(std::chrono::milliseconds patience);
  /// Sends it to all others that are there.
  void send_to_all(const Frame& frame);
  /// Tells all others why this rank gives up.
  void give_up(const std::string& why);

 private:
  std::uint64_t moved_b() const;

  const bool waits_for_all_;
  const std::atomic<bool>* stop_;
  boost::asio::io_context io_;
  std::vector<std::shared_ptr<Link>> links_;
};

}  // namespace verbtwin::ibverbs
