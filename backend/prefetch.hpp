// prefetch_line(): a hint that memory is going to be read or written soon.
//
// Free to call for any address, on any thread; it changes nothing and waits for nothing.
#pragma once

#include <cstddef>

namespace verbtwin {

/// The cache line at `at`.
inline void prefetch_line(const void* at) {
  // GCC takes a function that does nothing but prefetch for one without effect, and drops the calls of it.
  asm volatile("" : : "r"(at));
  __builtin_prefetch(at);
}

/// The lines of [at, at + bytes), from `at` on.
inline void prefetch_lines(const void* at, std::size_t bytes) {
  constexpr std::size_t kLineBytes = 64;
  const auto* lines = static_cast<const std::byte*>(at);
  for (std::size_t line = 0; line < bytes; line += kLineBytes) prefetch_line(lines + line);
}

}  // namespace verbtwin
