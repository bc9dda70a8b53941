#include "tools/console/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>
#include <system_error>
#include <utility>

#include "backend/user_error.hpp"

namespace verbtwin::tools {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_errno(std::string_view doing, const fs::path& path) {
  throw std::system_error(errno, std::generic_category(), fmt::format("cannot {} {}", doing, path.string()));
}

/// Makes the rename itself last. A file system that cannot do it has done what it can.
void sync_directory(const fs::path& directory) {
  const int descriptor = open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

const InputFile* overwritten(const fs::path& output, const std::vector<InputFile>& inputs) {
  const auto is_output = [&](const InputFile& input) {
    std::error_code unknown;  // one of them is not there
    return fs::equivalent(output, input.path, unknown) ||
           fs::weakly_canonical(fs::absolute(output, unknown), unknown) ==
               fs::weakly_canonical(fs::absolute(input.path, unknown), unknown);
  };
  const auto found = std::ranges::find_if(inputs, is_output);
  return found == inputs.end() ? nullptr : &*found;
}

OutputDirectory::OutputDirectory(const fs::path& directory, const std::vector<std::string>& files,
                                 const std::vector<InputFile>& inputs, std::string_view asked_by) {
  const auto refuse = [&](std::string_view why,
                          std::string_view remedy = "a directory that can be created or written") {
    remove_what_is_empty();
    throw UserError("", fmt::format("{}{}: {}; give {}", asked_by, directory.string(), why, remedy));
  };
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (fs::exists(status) && !fs::is_directory(status)) refuse("a file of that name is in the way");
  if (directory.empty()) refuse("cannot create it (it has no name)");
  std::vector<fs::path> absent;
  for (fs::path path = fs::absolute(directory, error); !path.empty() && !fs::exists(path, error);
       path = path.parent_path())
    absent.push_back(path);
  for (; !absent.empty(); absent.pop_back()) {  // another may make one meanwhile: it is not ours to remove
    if (fs::create_directory(absent.back(), error)) made_.insert(made_.begin(), absent.back());
    if (error) refuse(fmt::format("cannot create it ({})", error.message()));
  }

  std::set<fs::path> seen;
  const auto refuse_unwritable = [&](fs::path place) {
    while (!fs::exists(place, error) && place != directory) place = place.parent_path();
    if (!seen.insert(place).second) return;
    if (!fs::is_directory(place, error))
      refuse(fmt::format("{} in it is a file", place.lexically_relative(directory).string()));
    try {
      const OutputFile probe(place / "verbtwin");
    } catch (const std::system_error& failed) {
      refuse(fmt::format("cannot write there ({})", failed.code().message()));
    }
  };
  for (const std::string& name : files) {
    const fs::path file = directory / name;
    refuse_unwritable(file.parent_path());
    if (!fs::exists(file, error)) continue;  // inputs do
    if (fs::is_directory(file, error)) refuse(fmt::format("{} in it is a directory", name));
    if (const InputFile* input = overwritten(file, inputs))
      refuse(fmt::format("{} in it is {}", name, input->what), "another directory");
  }

  // Processes that run points have it too, and end with this one; programs that are started do not.
  lock_ = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0 || flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  close(lock_);
  made_.clear();  // the other writes in them
  refuse("another verbtwin is writing there", "another directory, or wait until it ends");
}

OutputDirectory::~OutputDirectory() {
  remove_what_is_empty();
  if (lock_ >= 0) close(lock_);
}

void OutputDirectory::remove_what_is_empty() const {
  for (const fs::path& made : made_)
    rmdir(made.c_str());  // the deepest first; refused where anything is in it
}

OutputFile::OutputFile(fs::path path, Replaces replaces) : path_(std::move(path)) {
  std::error_code ignored;  // mkostemp() says the same
  const fs::file_status status = fs::symlink_status(path_, ignored);
  const bool in_place = replaces == Replaces::kPlain && fs::exists(status) && !fs::is_regular_file(status);
  if (in_place) {
    // Not to wait there until somebody reads a pipe: no signal would end that.
    descriptor_ = open(path_.c_str(), O_WRONLY | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor_ >= 0) fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK);
  } else {
    aside_ = path_.string() + ".XXXXXX";
    descriptor_ = mkostemp(aside_.data(), O_CLOEXEC);
  }
  if (descriptor_ < 0) throw_errno("write", path_);
}

OutputFile::~OutputFile() {
  close(descriptor_);
  if (!aside_.empty()) unlink(aside_.c_str());
}

void OutputFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno("write", path_);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::commit() {
  if (aside_.empty()) return;
  // mkostemp makes files for their owner only; a result is as readable as any other new file.
  const mode_t mask = umask(0);
  umask(mask);
  if (fchmod(descriptor_, 0666 & ~mask) != 0 || fsync(descriptor_) != 0) throw_errno("write", path_);
  if (rename(aside_.c_str(), path_.c_str()) != 0) throw_errno("write", path_);
  aside_.clear();
  sync_directory(path_.parent_path());
}

void write_file_whole(const fs::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace verbtwin::tools
