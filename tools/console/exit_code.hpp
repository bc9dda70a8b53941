// How the program's processes end (README.md "Asking questions"). Constants and arithmetic; any thread.
#pragma once

namespace verbtwin::tools {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUserError = 2;
inline constexpr int kExitCheckFailed = 3;
inline constexpr int kExitSignal = 128;  // plus the signal's number, as shells have it

/// After a run that ended early; 0: another rank had the signal.
constexpr int exit_code_of_stop(int signal_number) {
  return signal_number == 0 ? kExitFailure : kExitSignal + signal_number;
}

}  // namespace verbtwin::tools
