// Captured: a file without a name, for what a process writes; gone with the object. One thread. Throws
// std::system_error where the kernel gives none.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "scenarios/document.hpp"

namespace verbtwin::tools {

class Captured {
 public:
  Captured() : fd_(memfd_create("measure", MFD_CLOEXEC)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "no memory file");
  }
  ~Captured() { close(fd_); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  int fd() const { return fd_; }
  std::string text() const { return scenarios::read_text(fmt::format("/proc/self/fd/{}", fd_)); }

 private:
  int fd_;
};

}  // namespace verbtwin::tools
