// How two peers show each other that they know the run's token, without sending it. The caller says who it
// is, with a random number; the other side answers by one of its own and a digest of both under the token;
// then the caller answers by a digest too. So neither learns more of one who does not know the token than
// that, and what was heard once is of no use again. It is no encryption.
//
// Free functions, callable from any thread. std::system_error where the system has no random bytes.
#pragma once

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "backend/ibverbs/sha256.hpp"

namespace verbtwin::ibverbs {

template <std::size_t kSize>
std::array<char, kSize> fixed_text(std::string_view text) {
  std::array<char, kSize> to{};
  std::memcpy(to.data(), text.data(), std::min(text.size(), kSize - 1));
  return to;
}

template <typename T>
std::string_view bytes_of(const T& value) {
  static_assert(std::has_unique_object_representations_v<T>, "no byte of it is left open");
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

using Nonce = std::array<std::uint8_t, 32>;

template <typename T>
T random_value() {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 256, "getrandom(2) gives those whole");
  T value;
  if (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value))
    throw std::system_error(errno, std::generic_category(), "no random bytes");
  return value;
}

/// `side` is the one that shows it; `hello` is all that the caller has said, its nonce included; `nonce` is
/// the other side's.
enum class Side : char { kRankZero = 'Z', kJoining = 'J', kTcpCalled = 'C', kTcpCaller = 'c' };
inline Digest proof(Side side, std::string_view token, std::string_view hello, const Nonce& nonce) {
  return hmac_sha256(token, std::string(1, static_cast<char>(side)).append(bytes_of(nonce)).append(hello));
}

/// The answer to a hello.
struct Challenge {
  Nonce nonce{};
  Digest proof{};
};
inline Challenge challenge_for(Side side, std::string_view token, std::string_view hello) {
  const auto nonce = random_value<Nonce>();
  return {nonce, proof(side, token, hello, nonce)};
}

/// Takes as long wherever the first difference is.
inline bool same_digest(const Digest& a, const Digest& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace verbtwin::ibverbs
