// What conflicts cost a run, as its result tells: attempts that fail and the time that goes into them.
//
// Pure functions of the result so far; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "tools/run/result.hpp"

namespace verbtwin::tools {

/// Of the coroutines' time, what goes into attempts that fail and the waits behind them: what the phases of
/// those that commit leave. Nothing where loads are offered: coroutines wait for transactions too.
std::optional<double> retry_share(const RunInput& input, const nlohmann::json& result);

/// Where most attempts fail and most of the time is theirs, most of what keeps a resource busy is in vain:
/// conflicts are the limit, whatever is full. Where nothing is full, a third of either is enough: without
/// conflicts half again as much would commit, and twice the coroutines bring no more than that.
bool conflicts_limit(const RunInput& input, const nlohmann::json& result, bool saturated);

/// Where something else is the limit: conflicts still take a quarter of the coroutines' time or more.
bool conflicts_matter(const RunInput& input, const nlohmann::json& result);

}  // namespace verbtwin::tools
