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

/// What is full: nothing, one instance of a resource (a hot record's machine), or all of them.
enum class Full { kNothing, kOne, kAll };

/// Where most attempts fail and most of the time is theirs, most of what keeps a resource busy is in vain:
/// conflicts are the limit, whatever is full. Where one machine alone is, most of the time is enough: it is
/// full of attempts at its hot records, and more of what it is short of brings more of them. Where nothing is
/// full, a third of either is enough: without conflicts half again as much would commit, and twice the
/// coroutines bring no more than that.
bool conflicts_limit(const RunInput& input, const nlohmann::json& result, Full full);

/// Where something else is the limit: conflicts still take a quarter of the coroutines' time or more.
bool conflicts_matter(const RunInput& input, const nlohmann::json& result);

}  // namespace verbtwin::tools
