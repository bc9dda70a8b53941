#include "tools/commands/measured_points.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backend/user_error.hpp"

namespace verbtwin::tools {

namespace {

using Point = calibration::PrimitivePoint;

/// As perftest where latency is measured: inline, and a WRITE until the other end sees it, not until its
/// acknowledgement.
void time_as_perftest(Point& point, int inline_b) {
  if (!point.is_alone()) return;
  point.is_inline = (point.verb == "write" || point.verb == "send") && point.payload_b <= inline_b;
  if (point.verb == "write" && point.payload_b >= 8) point.mode = "ping_pong";
}

/// Said once.
void skip(MeasuredPoints& all, const std::string& what) {
  if (std::ranges::find(all.skipped, what) == all.skipped.end()) all.skipped.push_back(what);
}

MeasuredPoints combinations_of(const MeasuredGrid& grid) {
  constexpr int kMtuMax_b = 4096;
  MeasuredPoints all;
  for (const std::string& name : grid.verbs) {
    const bool datagram = name == "send_ud";
    Point point{datagram ? "send" : name, datagram ? "ud" : "rc"};
    point.signal_interval = grid.signal_interval;
    for (const int size : point.is_atomic() ? std::vector<int>{8} : grid.sizes) {
      if (datagram && size > kMtuMax_b) {
        skip(all, fmt::format("{:<14}{:<4}{:>9} skipped: a datagram holds up to {} B, not {}", point.verb,
                              point.transport, size, kMtuMax_b, size));
        continue;
      }
      point.payload_b = size;
      for (const int threads : grid.threads) {
        point.threads = threads;
        for (const int window : grid.windows) {
          point.outstanding = window;
          for (const int batch : grid.batches) {
            if (batch > window) {
              skip(all, fmt::format("skipped: -l {} does not fit in a window of -t {}", batch, window));
              continue;
            }
            point.doorbell_batch = batch;
            for (const int queue_pairs : datagram ? std::vector<int>{1} : grid.queue_pairs) {
              point.queue_pairs = queue_pairs;
              all.points.push_back(point);
              time_as_perftest(all.points.back(), grid.inline_b);
            }
          }
        }
      }
    }
  }
  return all;
}

void refuse_nothing(const MeasuredPoints& all) {
  std::string why;
  for (const std::string& skipped : all.skipped)
    why += (why.empty() ? "" : "; ") + skipped.substr(skipped.find("skipped: ") + 9);
  throw UserError("", fmt::format("verbtwin measure: these flags leave nothing to measure: {}; allowed: a -l "
                                  "up to the largest -t, send_ud with a -s up to 4096",
                                  why));
}

}  // namespace

MeasuredPoints measured_points(const MeasuredGrid& grid) {
  MeasuredPoints all = combinations_of(grid);
  if (all.points.empty()) refuse_nothing(all);
  return all;
}

}  // namespace verbtwin::tools
