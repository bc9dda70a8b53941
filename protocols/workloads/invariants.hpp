// What workloads' invariants have in common: sums over the records that were written must agree with what the
// committed transactions say they did.
//
// Called when every worker has stopped; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "protocols/checks/accesses.hpp"
#include "protocols/checks/report.hpp"

namespace verbtwin::protocols {

/// What the transactions' effects add up to must be what the written records changed by: `change_of` gives a
/// record's final amount less its initial one.
CheckReport check_sum(const char* name, const char* unit, const GroupedAccesses& accesses,
                      const std::function<std::int64_t(RecordId)>& change_of);

/// Writes the count of a value's updates into each line of it behind the first, and at its end: no line of a
/// version is that of another, so that the checks see what is torn or lost.
void mark_lines(std::span<std::byte> value, std::uint64_t count);

/// The same for records that count their updates in their first word: `initial` is what it was. `value_b`:
/// size of a value.
CheckReport check_updates(const GroupedAccesses& accesses, std::size_t value_b,
                          const std::function<bool(RecordId, std::span<std::byte>)>& value,
                          const std::function<std::uint64_t(RecordId)>& initial);

}  // namespace verbtwin::protocols
