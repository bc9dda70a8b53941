// RAMP ratios: a sweep over the RAMP family's ways to read and write, beside the ratios that RAMP over RDMA
// states; and whether the systems come in the published order wherever reads dominate: S2PL < RAMP on IPoIB <
// GET+,PUT+ < GET*,PUT+.
//
// Pure functions; callable from any thread. What does not pair throws UserError.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "calibration/csv_table.hpp"
#include "calibration/published_points.hpp"
#include "tools/compare/comparison.hpp"

namespace verbtwin::tools {

enum RampSystem : std::size_t {
  kS2plOnIpoib,
  kRampOnEthernet,
  kRampOnIpoib,
  kSendRecv,
  kGetPlus,  // GET+,PUT+; all RPCs by RDMA WRITE are the same
  kGetStar,  // GET*,PUT+
  kRampSystems
};

/// What a sweep has of one workload: each system's committed transactions per second at its best (over
/// threads and coroutines, where those vary), 0 where there is none.
struct RampGroup {
  std::string workload;  // "ycsb-groups, mix C"
  double read_share = 0;
  std::array<double, kRampSystems> per_s{};
};

/// Whether points.csv compares ways to read and write.
bool varies_ramp_systems(const calibration::CsvTable& table);

std::vector<RampGroup> ramp_groups(const calibration::CsvTable& table);

/// Markdown. Ends in a newline.
std::string render_ramp(const std::string& title, const std::vector<calibration::PublishedRatio>& published,
                        const std::vector<RampGroup>& groups);

Comparison compare_ramp(const calibration::CsvTable& table);

}  // namespace verbtwin::tools
