#include "tools/console/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "tools/console/text.hpp"

namespace verbtwin::tools {

namespace {

constexpr double kRedrawPeriodS = 0.1;
constexpr std::size_t kBarColumnsMin = 8;
constexpr std::size_t kBarColumnsMax = 20;
constexpr const char* kEraseLine = "\r\x1b[K";

}  // namespace

std::string render_progress(const ProgressState& state, std::size_t width_columns) {
  const double done = state.total_us > 0 ? std::clamp(state.simulated_us / state.total_us, 0.0, 1.0) : 0.0;
  // The parts in the order of their worth: a narrow terminal loses the last ones.
  std::string line = fmt::format("{:3.0f} %", done * 100);
  if (state.elapsed_s > 0 && state.simulated_us > 0) {
    const double left_us = std::max(0.0, state.total_us - state.simulated_us);
    const std::string parts[] = {
        fmt::format("ETA {}", format_seconds(left_us * state.elapsed_s / state.simulated_us)),
        fmt::format("{} of {} us", format_us(state.simulated_us), format_us(state.total_us)),
        fmt::format("{} us/s", format_us(state.simulated_us / state.elapsed_s)),
        fmt::format("{} commits/s", format_si(static_cast<double>(state.committed) / state.elapsed_s)),
    };
    for (const std::string& part : parts) {
      if (line.size() + 2 + part.size() > width_columns) break;
      line += "  " + part;
    }
  }
  constexpr std::size_t kFrameColumns = 3;
  if (line.size() + kFrameColumns + kBarColumnsMin <= width_columns) {
    const std::size_t bar_columns = std::min(kBarColumnsMax, width_columns - kFrameColumns - line.size());
    line = fmt::format("[{}] {}", format_bar(done, bar_columns), line);
  }
  return line;
}

Progress::Progress(std::FILE* terminal, std::size_t width_columns, std::function<double()> wall_s)
    : terminal_(terminal), width_columns_(width_columns), wall_s_(std::move(wall_s)) {}

Progress::~Progress() {
  erase();
}

void Progress::erase() {
  if (drawn_s_ < 0) return;
  std::fputs(kEraseLine, terminal_);
  std::fflush(terminal_);
  drawn_s_ = -1;
}

void Progress::update(double simulated_us, double total_us, std::uint64_t committed) {
  const double now_s = wall_s_();
  if (first_s_ < 0) first_s_ = now_s;
  if (drawn_s_ >= 0 && now_s - drawn_s_ < kRedrawPeriodS) return;
  drawn_s_ = now_s;
  const ProgressState state{simulated_us, total_us, committed, now_s - first_s_};
  // One column stays free: a line that fills the terminal would wrap.
  // Where the terminal has gone the run has not: no exception from here.
  std::fputs((kEraseLine + render_progress(state, width_columns_ - 1)).c_str(), terminal_);
  std::fflush(terminal_);
}

double Progress::monotonic_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace verbtwin::tools
