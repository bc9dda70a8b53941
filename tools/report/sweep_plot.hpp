// A sweep as a picture: throughput over what varies fastest, a curve for each setting of the rest, and beside
// it the latency; over throughput, as the field draws it, where what varies is how much is under way.
//
// A pure function of result JSON (tools/RESULT.md); callable from any thread.
#pragma once

#include <vector>

#include "tools/report/plot.hpp"
#include "tools/report/sweep_table.hpp"

namespace verbtwin::tools {

/// Two panels; none where there are fewer than two points that ran to their end. Those with a warning are
/// hollow.
std::vector<Panel> sweep_panels(const std::vector<SweepRow>& rows);

}  // namespace verbtwin::tools
