// What a user tells SimGrid beside what a Platform tells it: `--cfg=KEY:VALUE` and
// `--log=CATEGORY.KEY:VALUE`, as SimGrid's own programs take them.
//
// SimGrid has one configuration per process, which its first engine reads. So what is told here is told once,
// before the first Platform, and holds for all of them, also in processes that are forked. One thread.
#pragma once

#include <string>
#include <vector>

namespace verbtwin::sim {

/// Each without its "--cfg=" or "--log=". Throws UserError, in one line, for a key, category or value that
/// SimGrid does not take (they are tried in a child: some would end the process) and for keys that are set
/// for every Platform.
void tell_simgrid(const std::vector<std::string>& cfg, const std::vector<std::string>& log);

/// What was told of --cfg: what a simulation may depend on.
const std::vector<std::string>& simgrid_cfg();

/// For an engine: what every Platform sets, then what was told.
std::vector<std::string> simgrid_arguments();

}  // namespace verbtwin::sim
