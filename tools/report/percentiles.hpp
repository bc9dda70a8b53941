// A result's latencies in HdrHistogram's text format of percentiles, which its plotter and others read, in
// microseconds; and the files that have them.
//
// One thread.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/console/output_file.hpp"

namespace verbtwin::tools {

/// `latency`: the member without its unit: "latency", or "latency_uncorrected" of a result that has it.
std::string percentile_text(const nlohmann::json& result, const std::string& latency = "latency");

/// Whether it has latencies without the wait for a coroutine too: of a load that is offered.
bool has_uncorrected(const nlohmann::json& result);

/// "out/b-uncorrected.hgrm" of "out/b.hgrm".
std::filesystem::path uncorrected_beside(const std::filesystem::path& file);

/// A file of a result's latencies, and where it has uncorrected ones another for these beside it.
class PercentileFiles {
 public:
  /// Throws std::system_error where a file cannot be made.
  PercentileFiles(const std::filesystem::path& file, bool uncorrected, OutputFile::Replaces replaces);
  void write(const nlohmann::json& result);

 private:
  OutputFile corrected_;
  std::optional<OutputFile> uncorrected_;
};

}  // namespace verbtwin::tools
