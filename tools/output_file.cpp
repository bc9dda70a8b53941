#include "tools/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "backend/user_error.hpp"

namespace verbtwin::tools {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_errno(std::string_view doing, const fs::path& path) {
  throw std::system_error(errno, std::generic_category(), fmt::format("cannot {} {}", doing, path.string()));
}

/// A new file in the directory of `path`, gone at the end unless it was renamed to `path`.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& path) : path_(path), name_(path.string() + ".XXXXXX") {
    descriptor_ = mkstemp(name_.data());
    if (descriptor_ < 0) throw_errno("write", path);
  }
  ~TemporaryFile() {
    close(descriptor_);
    if (!renamed_) unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write_all(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(descriptor_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw_errno("write", path_);
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void commit() {
    // mkstemp makes files for their owner only; a result is as readable as any other new file.
    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(descriptor_, 0666 & ~mask) != 0 || fsync(descriptor_) != 0) throw_errno("write", path_);
    if (rename(name_.c_str(), path_.c_str()) != 0) throw_errno("write", path_);
    renamed_ = true;
  }

 private:
  fs::path path_;
  std::string name_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

/// Makes the rename itself last. A file system that cannot do it has done what it can.
void sync_directory(const fs::path& directory) {
  const int descriptor = open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

void prepare_output_directory(const fs::path& directory, std::string_view file_name,
                              std::string_view asked_by) {
  const auto refuse = [&](std::string_view why) {
    throw UserError("", fmt::format("{}{}: {}; give a directory that can be created or written", asked_by,
                                    directory.string(), why));
  };
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (fs::exists(status) && !fs::is_directory(status)) refuse("a file of that name is in the way");
  fs::create_directories(directory, error);
  if (error) refuse(fmt::format("cannot create it ({})", error.message()));
  const fs::path file = directory / file_name;
  if (fs::is_directory(file, error)) refuse(fmt::format("{} in it is a directory", file_name));
  try {
    const TemporaryFile probe(file);
  } catch (const std::system_error& failed) {
    refuse(fmt::format("cannot write there ({})", failed.code().message()));
  }
}

void check_output_file(const fs::path& path, std::string_view asked_by) {
  const auto refuse = [&](const std::error_code& why) {
    throw UserError("", fmt::format("{}: cannot be written: {}", asked_by, why.message()));
  };
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) refuse(std::make_error_code(std::errc::is_a_directory));
  try {
    const TemporaryFile probe(path);
  } catch (const std::system_error& failed) {
    refuse(failed.code());
  }
}

void write_file_whole(const fs::path& path, std::string_view text) {
  TemporaryFile file(path);
  file.write_all(text);
  file.commit();
  sync_directory(path.parent_path());
}

}  // namespace verbtwin::tools
