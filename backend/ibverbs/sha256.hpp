// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), for messages of a few hundred bytes: what ranks show each
// other instead of the run's token. No cryptographic library is among what a build needs, and this is all
// that would be taken of one.
//
// Pure functions, any thread. Neither branches nor addresses depend on what is hashed.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace verbtwin::ibverbs {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view message);
Digest hmac_sha256(std::string_view key, std::string_view message);

}  // namespace verbtwin::ibverbs
