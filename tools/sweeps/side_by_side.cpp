#include "tools/sweeps/side_by_side.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

#include "backend/user_error.hpp"
#include "calibration/forked.hpp"
#include "scenarios/loader.hpp"
#include "tools/console/progress.hpp"
#include "tools/console/stop_signals.hpp"
#include "tools/report/summary.hpp"
#include "tools/report/sweep_table.hpp"
#include "tools/run/simulate.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;

/// What parent and children tell each other, in memory that they share.
struct PointState {
  std::atomic<double> simulated_us{0};
  std::atomic<std::uint64_t> committed{0};
};

class Shared {
 public:
  explicit Shared(std::size_t points) : bytes_(sizeof(std::atomic<bool>) * 64 + points * sizeof(PointState)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    stop_ = new (memory_) std::atomic<bool>(false);
    points_ = reinterpret_cast<PointState*>(static_cast<std::byte*>(memory_) + 64);
    for (std::size_t i = 0; i < points; ++i) new (points_ + i) PointState;
  }
  ~Shared() { munmap(memory_, bytes_); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  std::atomic<bool>& stop() { return *stop_; }
  PointState& point(std::size_t number) { return points_[number]; }

 private:
  std::size_t bytes_;
  void* memory_ = nullptr;
  std::atomic<bool>* stop_ = nullptr;
  PointState* points_ = nullptr;
};

/// In a child: the point's result as text, nothing if it was too late to begin.
std::string run_point(const scenarios::Scenario& scenario, PointState& state, const std::atomic<bool>& stop) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody waits for it any more
  if (stop) return "";
  RunControl control;
  control.stop = &stop;
  control.progress = [&state](double simulated_us, double, std::uint64_t committed) {
    state.simulated_us = simulated_us;
    state.committed = committed;
  };
  try {
    return simulate(scenario, control).dump();
  } catch (const Interrupted&) {
    return "";
  } catch (const UserError& error) {
    throw UserError("", scenarios::describe(scenario, error));
  }
}

}  // namespace

void run_side_by_side(const std::vector<scenarios::SweepPoint>& points, int jobs,
                      const std::atomic<bool>& stop, bool show_progress,
                      const std::function<void(std::size_t point, json result)>& finished) {
  Shared shared(points.size());
  std::optional<Progress> progress;
  double total_us = 0;
  for (const auto& point : points) total_us += point.scenario.run.length_us();
  const auto watch = [&] {
    if (stop) shared.stop() = true;
    if (!show_progress) return true;
    if (!progress) progress.emplace(stderr, style_of_stream(STDERR_FILENO).width_columns);
    double simulated_us = 0;
    std::uint64_t committed = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      simulated_us += shared.point(i).simulated_us;
      committed += shared.point(i).committed;
    }
    progress->update(simulated_us, total_us, committed);
    return true;
  };
  std::vector<std::optional<std::string>> ended(points.size());
  std::size_t reported = 0;
  bool failed = false;
  const auto end = [&](std::size_t number, const calibration::ForkedResult& result) {
    shared.point(number).simulated_us = points[number].scenario.run.length_us();
    if (!result.error.empty()) {
      failed = true;
      shared.stop() = true;
    }
    ended[number] = result.text;
    for (; reported < points.size() && ended[reported] && !failed && !ended[reported]->empty(); ++reported) {
      if (progress) progress->erase();  // the line is somebody else's now
      finished(reported, json::parse(*ended[reported]));
    }
  };
  const auto work = [&](std::size_t number) {
    return run_point(points[number].scenario, shared.point(number), shared.stop());
  };
  const auto results = calibration::in_processes(points.size(), jobs, work, watch, end);
  if (progress) progress->erase();
  // Those that waited for one of which there is nothing: it failed, or had not begun when all were stopped.
  for (; reported < points.size(); ++reported) {
    const std::string& text = results[reported].text;
    if (text.empty()) continue;
    if (json result = json::parse(text); !failed || !result.at("partial"))
      finished(reported, std::move(result));
  }
  if (!failed) return;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::string& error = results[i].error;
    if (results[i].user_error) throw UserError("", error);
    if (!error.empty()) throw std::runtime_error(describe_point(points[i]) + ": " + error);
  }
}

}  // namespace verbtwin::tools
