#include "protocols/arrivals.hpp"

#include <algorithm>
#include <cmath>

#include "protocols/spread_bits.hpp"

namespace verbtwin::protocols {

namespace {

constexpr double kPsPerSecond = 1e12;

}  // namespace

// A sequence of its own: the workload's has the same seed and stream, the backoff's ~seed, and draws do not
// shift each other. spread_bits(0) is 0, and no run's seed is ~0.
Arrivals::Arrivals(double per_s, std::uint64_t seed, std::uint64_t stream)
    : random_(spread_bits(~seed), stream), mean_ps_(per_s > 0 ? kPsPerSecond / per_s : 0) {}

double Arrivals::draw_ps(std::int64_t now_ps, const Window& window) {
  if (at_ps_ < 0) at_ps_ = static_cast<double>(now_ps);
  const double uniform =
      (static_cast<double>(random_()) + 1) / 4294967296.0;  // above 0: its logarithm is finite
  at_ps_ -= mean_ps_ * std::log(uniform);
  if (at_ps_ >= static_cast<double>(window.begin_ps) && at_ps_ < static_cast<double>(window.end_ps)) {
    ++drawn_in_window_;
  }
  return at_ps_;
}

std::uint64_t Arrivals::count(const Window& window) {
  constexpr double kDrawnMost = 1e5;  // of a backlog beyond that its expected length is as good
  const auto begin_ps = static_cast<double>(window.begin_ps), end_ps = static_cast<double>(window.end_ps);
  const auto expected_until = [&](double ps) { return (ps - at_ps_) / mean_ps_; };
  // What was due before the window is not asked for, and the process does not remember it.
  if (expected_until(begin_ps) > kDrawnMost) at_ps_ = begin_ps;
  while (at_ps_ < begin_ps) draw_ps(0, window);
  if (const double rest = expected_until(end_ps); rest > kDrawnMost) {
    drawn_in_window_ += static_cast<std::uint64_t>(std::min(rest, 1e18));
    at_ps_ = end_ps;
  }
  while (at_ps_ < end_ps) draw_ps(0, window);
  return drawn_in_window_;
}

Task<std::optional<std::int64_t>> Arrivals::next(Worker& worker, Cpu& cpu, const Window& window,
                                                 const std::atomic<bool>& stop) {
  const double drawn_ps = draw_ps(cpu.now_ps(), window);
  if (drawn_ps >= static_cast<double>(window.end_ps)) co_return std::nullopt;  // maybe years behind it
  const auto at_ps = static_cast<std::int64_t>(drawn_ps);
  while (cpu.now_ps() < at_ps) {
    auto sleep = worker.sleep_until(std::min(at_ps, cpu.now_ps() + kLookAtStopPs));
    co_await sleep;
    if (stop.load(std::memory_order_relaxed)) co_return std::nullopt;
  }
  co_return at_ps;
}

}  // namespace verbtwin::protocols
