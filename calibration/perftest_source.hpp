// PerftestSource: a file that one of perftest's tools printed, or wrote with --out_json, taken apart: the
// runs in it, what their headers say and their results, as words with their places. What they mean:
// perftest.cpp.
//
// Values, const use from any thread. Views are into the source, which outlives them; it cannot be moved.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace verbtwin::calibration {

inline constexpr std::size_t kPerftestResultsMax = 10'000;  // as a measurement may have points
/// The field of a run, "ON", whose buffers perftest says to be a GPU's in a line that is no field.
inline constexpr const char* kGpuMemory = "GPU_memory";

class PerftestSource {
 public:
  explicit PerftestSource(const std::filesystem::path& file);
  PerftestSource(const PerftestSource&) = delete;
  PerftestSource& operator=(const PerftestSource&) = delete;

  const std::string& label() const { return label_; }
  std::string_view all() const { return text_; }

  /// Throws a UserError with the place of `part`, a view into all().
  [[noreturn]] void refuse(std::string_view part, const std::string& what) const;

 private:
  std::string label_, text_;
};

struct PerftestField {
  std::string value;
  std::string_view at;
};
/// By name as --out_json has it, "TX_depth": what the printed header calls "TX depth".
using PerftestFields = std::map<std::string, PerftestField>;

struct PerftestResult {
  PerftestFields cells;  // MsgSize, MsgRate, t_typical, ...
  std::string_view at;
  std::size_t line = 0;
};

struct PerftestRun {
  PerftestFields info;
  std::vector<PerftestResult> results;
  std::string_view at;
};

/// Sets `partial` where one of them did not come to its end.
std::vector<PerftestRun> perftest_runs(const PerftestSource& source, bool& partial);

}  // namespace verbtwin::calibration
