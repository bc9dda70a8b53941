// What a command says on its standard streams. One thread at a time.
#pragma once

#include <filesystem>
#include <string_view>

namespace verbtwin::tools {

/// Writes `text` to standard output, all of it; throws std::system_error if it cannot.
void print(std::string_view text);

/// Says on standard output that a file has been written, and `more` of it.
void print_written(const std::filesystem::path& file, std::string_view more = "");

/// Writes `text` to standard error. Where that cannot be written to (a full disk, a terminal that went away)
/// the text is lost, and the work is not.
void print_error(std::string_view text);

}  // namespace verbtwin::tools
