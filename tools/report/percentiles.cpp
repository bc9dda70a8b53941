#include "tools/report/percentiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tools/report/member.hpp"

namespace verbtwin::tools {

namespace {

constexpr const char* kUncorrected = "latency_uncorrected";

}  // namespace

std::string percentile_text(const nlohmann::json& result, const std::string& latency) {
  const bool operations = result.contains("operations");
  const auto count = result.value(operations ? "operations" : "committed", std::uint64_t{0});
  std::string out = "       Value   Percentile   TotalCount 1/(1-Percentile)\n\n";
  for (const auto& [text, us] : member(result, (latency + "_quantiles_us").c_str()).items()) {
    const double share = std::stod(text);
    const auto below = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count)));
    out += fmt::format("{:12.3f} {:2.12f} {:10}", us.get<double>(), share, std::max<std::uint64_t>(below, 1));
    out += share < 1 ? fmt::format(" {:14.2f}\n", 1 / (1 - share)) : "\n";
  }
  const nlohmann::json& all = member(result, (latency + "_us").c_str());
  return out + fmt::format("#[Mean    = {:12.3f}]\n#[Max     = {:12.3f}, Total count    = {:12}]\n",
                           number(all, "mean"), number(all, "max"), count);
}

bool has_uncorrected(const nlohmann::json& result) {
  return result.contains(std::string(kUncorrected) + "_us");
}

std::filesystem::path uncorrected_beside(const std::filesystem::path& file) {
  std::filesystem::path name = file.stem();
  name += "-uncorrected";
  name += file.extension();
  return file.parent_path() / name;
}

PercentileFiles::PercentileFiles(const std::filesystem::path& file, bool uncorrected,
                                 OutputFile::Replaces replaces)
    : corrected_(file, replaces) {
  if (uncorrected) uncorrected_.emplace(uncorrected_beside(file), replaces);
}

void PercentileFiles::write(const nlohmann::json& result) {
  corrected_.write(percentile_text(result));
  if (uncorrected_) uncorrected_->write(percentile_text(result, kUncorrected));
  corrected_.commit();
  if (uncorrected_) uncorrected_->commit();
}

}  // namespace verbtwin::tools
