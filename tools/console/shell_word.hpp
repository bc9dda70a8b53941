// shell_word(): what a POSIX shell reads as one word, whatever is in it.
//
// A pure function, callable from any thread.
#pragma once

#include <string>

namespace verbtwin::tools {

/// In single quotes, where it needs any.
std::string shell_word(const std::string& text);

}  // namespace verbtwin::tools
