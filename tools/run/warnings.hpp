// What a reader of a result should be warned of: figures that are not what they seem.
//
// Pure functions; each adds a sentence to result["warning"], or none.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "tools/run/result.hpp"

namespace verbtwin::tools {

/// Coroutines do nothing but transactions, so that the latencies add up to their time (Little's law). Where
/// they do not, transactions that the window does not see the end of are missing. What user aborts took is
/// not known: anything up to as much as a commit of their type.
void warn_of_length(const TransactionsInput& input, nlohmann::json& result);

/// As many requests begin in a window as end in it, and calls' latencies add up to their coroutines' time, if
/// it is long beside what is under way.
void warn_of_edges(const OperationsInput& input, nlohmann::json& result);

/// Of all machines that begin transactions or operations.
double coroutines_of(const RunInput& input);

/// Transactions or operations that came to their end in the window of a result.
double ended_of(const nlohmann::json& result);

/// Transactions or operations that run.offered_per_s asked for in the window of a result: counted, or as many
/// as are to be expected where the run was ended early.
double offered_to(const nlohmann::json& result);

/// Whether as many as that came to their end in it, but for those under way and chance.
enum class Load : std::uint8_t {
  kDone,
  kFilling,  // those of the second half did, queues had to fill before: it may be done
  kUnclear,  // a good share is missing, but in a window as short as this it may be chance
  kTooMuch,
};
Load load_of(const RunInput& input, const nlohmann::json& result);
/// The same of a finished result.
bool does_offered_load(const nlohmann::json& result);

/// Where it did not, the backlog grows for as long as the run does, unless the warm-up or the window is too
/// short.
void warn_of_backlog(const RunInput& input, nlohmann::json& result);

/// A rate of 0 and latencies of 0 mean that nothing was measured, not that nothing takes any time.
void warn_of_nothing(const RunInput& input, nlohmann::json& result);

/// Of a micro-benchmark whose operations end where their requests leave: that some never came. Behind the
/// result's verbs.
void warn_of_losses(const RunInput& input, nlohmann::json& result);

/// Queues that fill need a few latencies until they are as long as they will be. Who asked for no warm-up
/// wants to see the start.
void warn_of_start(const RunInput& input, nlohmann::json& result);

/// A rate that still falls or grows is none: a window twice as long would say another. Chance is the square
/// root of what was counted.
void warn_of_trend(const RunInput& input, nlohmann::json& result);

/// Queue pairs are made when they are first used: where more than a NIC holds come to be, ever more of them
/// are fetched, until all are there.
void warn_of_contexts(const RunInput& input, nlohmann::json& result);

}  // namespace verbtwin::tools
