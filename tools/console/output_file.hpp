// Output files that are whole or absent: checked before the work that fills them, written aside, then
// renamed.
//
// One thread. What the user can mend (no permission, something in the way, another command at work there)
// throws UserError from OutputDirectory; what breaks while writing (a full disk) throws std::system_error.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace verbtwin::tools {

/// A file that a command reads, and what it is to it: "the scenario itself".
struct InputFile {
  std::filesystem::path path;
  std::string what;
};

/// The one of `inputs` whose place `output` would take; null: none.
const InputFile* overwritten(const std::filesystem::path& output, const std::vector<InputFile>& inputs);

/// Where a command writes. Created if it is absent (and gone again if nothing is written), and this command's
/// alone until the end of its life: two that write there at once would leave files of both. A file system
/// that cannot lock has done what it can.
class OutputDirectory {
 public:
  /// Makes sure that each of `files` ("points/000/result.json") can be written there later and is none of
  /// `inputs`. `asked_by` stands before the directory in a message.
  OutputDirectory(const std::filesystem::path& directory, const std::vector<std::string>& files,
                  const std::vector<InputFile>& inputs = {}, std::string_view asked_by = "--out ");
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

 private:
  void remove_what_is_empty() const;

  std::vector<std::filesystem::path> made_;
  int lock_ = -1;
};

/// A file that comes bit by bit: beside `path` until commit() renames it, gone if that is never called.
class OutputFile {
 public:
  /// kPlain: what is no plain file (a pipe, a device, a link) is written in place.
  enum class Replaces { kAnything, kPlain };

  explicit OutputFile(std::filesystem::path path, Replaces replaces = Replaces::kAnything);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(std::string_view text);
  /// To the disk, then to its name.
  void commit();

 private:
  std::filesystem::path path_;
  std::string aside_;  // its name until then; empty where it is written in place, or has been renamed
  int descriptor_ = -1;
};

/// An OutputFile in one go: on a failure `path` is as it was and nothing is left behind.
void write_file_whole(const std::filesystem::path& path, std::string_view text);

}  // namespace verbtwin::tools
