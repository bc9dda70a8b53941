// reason(): why a call of the system or of libibverbs failed, in words, and where it helps what to do about
// it.
//
// Any thread.
#pragma once

#include <string>

namespace verbtwin::ibverbs {

/// " (Cannot allocate memory)" and what to do, for messages about a call that failed with `error`.
std::string reason(int error);

}  // namespace verbtwin::ibverbs
