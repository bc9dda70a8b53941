#include "tools/console/print.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "scenarios/text.hpp"

namespace verbtwin::tools {

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot write to standard output");
  }
}

void print_written(const std::filesystem::path& file, std::string_view more) {
  print(fmt::format("wrote {}{}\n", scenarios::one_line(file.string()), more));
}

void print_error(std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

}  // namespace verbtwin::tools
