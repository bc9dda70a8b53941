#include "sim/clock.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <simgrid/s4u.hpp>

namespace verbtwin::sim {

namespace s4u = simgrid::s4u;

namespace {

constexpr std::int64_t kWindowPs = 1'000'000;
constexpr double kPsPerSecond = 1e12;
constexpr std::uint32_t kLinkChange = Calendar::kIndexMax;

/// A smaller difference between SimGrid's double and a whole picosecond is rounding.
double rounding_ps(double time_ps) {
  return 1e-3 + time_ps * 1e-15;
}

/// The picosecond at which everything SimGrid has done so far is over.
std::int64_t simgrid_now_ps() {
  const double now_ps = s4u::Engine::get_clock() * kPsPerSecond;
  return static_cast<std::int64_t>(std::ceil(now_ps - rounding_ps(now_ps)));
}

}  // namespace

Clock::Clock(Platform& platform, Calendar& calendar, Messages messages)
    : platform_(platform), calendar_(calendar), mode_(messages), self_(calendar.add_handler(*this)) {
  assert(calendar.now_ps() == 0 && simgrid_now_ps() == 0);
  s4u::Activity::on_completion_cb([](const s4u::Activity& activity) {  // disconnected with its Platform
    auto* message = activity.get_data<Message>();
    if (message != nullptr) message->clock->completed_.push_back(message);
  });
  platform_.on_change_announced([this] {
    // SimGrid is at most a window ahead of the calendar, never behind it by more than rounding.
    calendar_.schedule(std::max(simgrid_now_ps(), calendar_.now_ps()), self_, kLinkChange);
  });
}

Clock::~Clock() {
  platform_.on_change_announced(nullptr);
  for (Message& message : messages_) {
    if (!message.comm) continue;
    message.comm->set_data(nullptr);
    message.comm->cancel();
  }
}

bool Clock::run_until(std::int64_t until_ps, const std::function<bool()>& keep_going) {
  assert(until_ps <= kUntilMaxPs);
  do {
    if (!keep_going()) return false;
    const std::int64_t end_ps = window_end_ps(until_ps);
    if (mode_ == Messages::kNone) {
      run_window(end_ps);
    } else {
      run_window_with_messages(end_ps);
    }
  } while (calendar_.now_ps() < until_ps);
  return true;
}

std::int64_t Clock::window_end_ps(std::int64_t until_ps) const {
  const std::int64_t end_ps = calendar_.now_ps() + kWindowPs;
  // A run_until() of SimGrid returns at the first completion only within 10 us of its goal, and after all
  // events of profiles on the way, which may be as many as the time is long.
  if (in_flight_ > 0 || platform_.has_profiles()) return std::min(end_ps, until_ps);
  const std::int64_t next_ps = calendar_.empty() ? until_ps : calendar_.next_ps();
  return std::min(std::max(end_ps, next_ps), until_ps);
}

void Clock::run_window(std::int64_t end_ps) {
  advance_simgrid(end_ps);
  calendar_.run_until(end_ps);
}

void Clock::run_window_with_messages(std::int64_t end_ps) {
  do {
    advance_simgrid(calendar_.empty() ? end_ps : std::min(end_ps, calendar_.next_ps()));
    const std::int64_t now_ps = simgrid_now_ps();
    for (Message* message : completed_) finish(*message, now_ps);
    completed_.clear();
    calendar_.run_until(now_ps);
  } while (calendar_.now_ps() < end_ps);
}

/// To `target_ps`, or to the first picosecond by which a message has arrived.
void Clock::advance_simgrid(std::int64_t target_ps) {
  const s4u::Engine* engine = s4u::Engine::get_instance();
  const auto is_before = [](double target) {
    return s4u::Engine::get_clock() * kPsPerSecond < target - rounding_ps(target);
  };
  while (is_before(static_cast<double>(target_ps))) {
    engine->run_until(static_cast<double>(target_ps) / kPsPerSecond);
    if (!completed_.empty()) target_ps = simgrid_now_ps();
  }
}

void Clock::handle(std::uint32_t index) {
  if (index == kLinkChange) {
    platform_.apply_next_change();
  } else {
    start(messages_[index]);
  }
}

void Clock::send(int from_endpoint, int to_endpoint, std::uint64_t bytes, std::int64_t start_ps,
                 Calendar::HandlerId handler, std::uint32_t index) {
  assert(mode_ == Messages::kSimulated);
  if (from_endpoint == to_endpoint) return calendar_.schedule(start_ps, handler, index);
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(messages_.size()));
    messages_.emplace_back();
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  messages_[slot] = {this, slot, nullptr, from_endpoint, to_endpoint, bytes, handler, index};
  calendar_.schedule(start_ps, self_, slot);
}

void Clock::start(Message& message) {
  assert(simgrid_now_ps() == calendar_.now_ps());
  s4u::Host* from = platform_.host(message.from_endpoint);
  s4u::Host* to = platform_.host(message.to_endpoint);
  std::vector<s4u::Link*> links;
  double latency_s = 0;
  from->route_to(to, links, &latency_s);
  // SimGrid never completes a communication that no actor waits for if it fails at once or has no bytes.
  const bool on =
      std::all_of(links.begin(), links.end(), [](const s4u::Link* link) { return link->is_on(); });
  if (!on || message.bytes == 0) {
    return retire(message, on, calendar_.now_ps() + std::llround(latency_s * kPsPerSecond));
  }
  message.comm = s4u::Comm::sendto_init(from, to)->set_payload_size(message.bytes);
  message.comm->set_data(&message);
  message.comm->start();
  ++in_flight_;
}

void Clock::finish(Message& message, std::int64_t arrival_ps) {
  const bool arrived = message.comm->get_state() == s4u::Activity::State::FINISHED;
  message.comm = nullptr;
  --in_flight_;
  retire(message, arrived, arrival_ps);
}

void Clock::retire(const Message& message, bool arrived, std::int64_t arrival_ps) {
  free_slots_.push_back(message.slot);
  if (arrived) calendar_.schedule(arrival_ps, message.handler, message.index);
}

}  // namespace verbtwin::sim
