// Output files that are whole or absent: checked before the work that fills them, written aside, then
// renamed.
//
// Free functions, one thread at a time per directory. What the user can mend (no permission, something in the
// way) throws UserError from prepare_output_directory; what breaks while writing (a full disk) throws
// std::system_error.
#pragma once

#include <filesystem>
#include <string_view>

namespace verbtwin::tools {

/// Creates `directory` if it is absent and makes sure that `file_name` can be written in it later. `asked_by`
/// stands before the directory in a message.
void prepare_output_directory(const std::filesystem::path& directory, std::string_view file_name,
                              std::string_view asked_by = "--out ");

/// Throws UserError, its message beginning with `asked_by`, where write_file_whole() could not begin.
void check_output_file(const std::filesystem::path& path, std::string_view asked_by);

/// Writes `text` to a temporary file beside `path`, to the disk, then renames it. On a failure `path` is as
/// it was and nothing is left behind.
void write_file_whole(const std::filesystem::path& path, std::string_view text);

}  // namespace verbtwin::tools
