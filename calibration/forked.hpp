// in_processes(): the same work for many items, each in a process of its own, a few at a time.
//
// For work that a process can do only once (SimGrid's engine). The calling process needs no engine of its
// own. One thread; results in the order of the items. What a child throws comes back as its error.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace verbtwin::calibration {

struct ForkedResult {
  std::string text;         // what `work` returned
  std::string error;        // what it threw instead, or died of
  bool user_error = false;  // what it threw was a UserError
};

/// `going_on` is asked between items; once it says false, what runs is ended and an empty list is returned.
/// `finished`, where given, hears of each item that has come to its end, in the order in which they do. What
/// any of them throws, or the system where it has no process left, comes out when what runs has been ended.
std::vector<ForkedResult> in_processes(
    std::size_t items, int jobs, const std::function<std::string(std::size_t)>& work,
    const std::function<bool()>& going_on,
    const std::function<void(std::size_t item, const ForkedResult&)>& finished = {});

}  // namespace verbtwin::calibration
