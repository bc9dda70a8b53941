#include "backend/ibverbs/links.hpp"

#include <thread>

namespace verbtwin::ibverbs {

namespace {

/// How long rank 0 waits for the others once it has been told to stop: transactions that are under way may
/// take 10 s to end, and then there are reports to make.
constexpr std::chrono::seconds kStopPatience{30};
/// The longest time in which a stop is not seen.
constexpr std::chrono::milliseconds kLook{200};

}  // namespace

Links::~Links() {
  for (const auto& link : links_) {
    if (link) link->close();
  }
  poll();
}

void Links::poll() {
  io_.restart();
  io_.poll();
}

bool Links::wait(const std::function<bool()>& done, Clock::time_point deadline) {
  while (!done()) {
    if (Clock::now() >= deadline) return false;
    io_.restart();
    if (io_.run_one_until(std::min(deadline, Clock::now() + kLook)) == 0 && io_.stopped()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  return true;
}

bool Links::wait_while_moving(const std::function<bool()>& done, std::chrono::milliseconds patience) {
  for (Clock::time_point since = Clock::now();;) {
    const std::uint64_t before = moved_b();
    const auto moved = [&] { return done() || moved_b() != before; };
    const bool hurried = waits_for_all_ && stopped();
    const auto limit = hurried ? std::min<std::chrono::milliseconds>(patience, kStopPatience) : patience;
    const bool ended = wait(moved, std::min(since + limit, Clock::now() + kLook));
    if (done()) return true;
    if (ended) since = Clock::now();
    if (Clock::now() >= since + limit) return false;
  }
}

void Links::flush(std::chrono::milliseconds patience) {
  wait_while_moving([this] { return all([](const Link& link) { return link.sent_all(); }); }, patience);
}

void Links::send_to_all(const Frame& frame) {
  for (const auto& link : links_) {
    if (link && !link->lost()) link->send(frame);
  }
}

void Links::give_up(const std::string& why) {
  send_to_all({Frame::Kind::kGiveUp, 0, why.substr(0, 1000)});
  flush(std::chrono::seconds(2));
}

std::uint64_t Links::moved_b() const {
  std::uint64_t sum = 0;
  for (const auto& link : links_) sum += link ? link->moved_b() : 0;
  return sum;
}

}  // namespace verbtwin::ibverbs
