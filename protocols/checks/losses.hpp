// The check for losses: at one instant of a run, is there a version of a record that somebody may have seen,
// and that its primary alone has? What a log holds outlives its sender, and what a backup has applied its
// primary (FaRM, SOSP 2015, section 5; FaSST, OSDI 2016, section 5).
//
// Called between two steps of a run whose nodes are all in this process, by one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocols/checks/history.hpp"
#include "protocols/checks/report.hpp"

namespace verbtwin::protocols {

/// Whose logs make up for a copy that is behind: that of the node which keeps the copy, or those of as many
/// nodes as a coordinator logs at.
enum class MadeUpBy : std::uint8_t { kItsLog, kCoordinatorsLogs };

/// `versions`: of each record in turn, each at most once, those of its copies by replica rank: rank r is kept
/// by node (partition + r) % nodes. `waiting`: what logs hold and nobody has applied; without digests.
/// `losses` gets every backup's copy that is behind the newest one with no log to make up for it.
void find_losses(std::span<const RecordId> records, std::span<const std::uint64_t> versions,
                 std::vector<LoggedWrite> waiting, int nodes, MadeUpBy made_up_by, Findings& losses);

}  // namespace verbtwin::protocols
