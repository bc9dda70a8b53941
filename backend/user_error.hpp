// UserError: something the user gave (a file, a flag, a scenario value) cannot be used.
//
// Thrown while input is read and while a run is assembled, and in a run only for what it meets of its input
// late (a platform's profile that takes a link down). The top of the command line adds file:line:column for
// `pointer()` and exits 2; who runs many points or processes catches it in between, to say which it was. The
// message says what is wrong and what is allowed, on one line.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace verbtwin {

class UserError : public std::runtime_error {
 public:
  /// `pointer` is the JSON pointer of the offending value in the scenario ("/cluster/nodes"), or empty where
  /// the message already names its place.
  UserError(std::string pointer, const std::string& message)
      : std::runtime_error(message), pointer_(std::move(pointer)) {}

  const std::string& pointer() const { return pointer_; }

 private:
  std::string pointer_;
};

}  // namespace verbtwin
