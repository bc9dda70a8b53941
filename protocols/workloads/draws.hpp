// Random choices that workloads make, the same on every machine (no std::distributions).
//
// Pure functions of a generator and, for Zipf, of constants computed once; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <pcg_random.hpp>
#include <span>
#include <vector>

#include "protocols/spread_bits.hpp"

namespace verbtwin::protocols {

/// Uniform below `bound`, which may need more than 32 bits: rejection, so that nobody is favoured.
inline std::uint64_t draw_below(pcg32& random, std::uint64_t bound) {
  if (bound <= 0xFFFFFFFF) return random(static_cast<std::uint32_t>(bound));
  const std::uint64_t limit = ~std::uint64_t{0} - ~std::uint64_t{0} % bound;
  for (;;) {
    const std::uint64_t high = random();
    const std::uint64_t draw = high << 32 | random();
    if (draw < limit) return draw % bound;
  }
}

/// Uniform in [low, high].
inline std::uint32_t draw_between(pcg32& random, std::uint32_t low, std::uint32_t high) {
  return low + random(high - low + 1);
}

/// True `per_million` times of a million.
inline bool draw_chance(pcg32& random, std::uint32_t per_million) {
  return random(1'000'000) < per_million;
}

inline std::uint32_t per_million(double share) {
  return static_cast<std::uint32_t>(std::lround(share * 1'000'000));
}

/// An index drawn by weights that add up to 100.
inline std::uint32_t draw_percent(pcg32& random, std::span<const std::uint32_t> weights) {
  std::uint32_t percent = random(100), index = 0;
  while (percent >= weights[index]) percent -= weights[index++];
  return index;
}

/// A fixed, well spread number for `x` (splitmix64's): initial contents that are known without being stored.
inline std::uint64_t spread(std::uint64_t x) {
  return spread_bits(x + 0x9E3779B97F4A7C15ULL);
}

/// A fixed order of the numbers below `count` that looks like chance: who is popular by some rule of its low
/// bits, or by its rank, falls anywhere. Rounds of a multiplication and a shift, each of which can be undone,
/// on as many bits as `count` needs; what they lead beyond it goes through them again.
class Permutation {
 public:
  explicit Permutation(std::uint64_t count)
      : count_(count),
        mask_(std::bit_ceil(count) - 1),
        shift_(std::max(1, (static_cast<int>(std::bit_width(mask_)) + 1) / 2)) {}

  std::uint64_t place_of(std::uint64_t number) const {
    do {
      for (int round = 0; round < kRounds; ++round) {
        number = (number * kFactor + kAdded) & mask_;
        number ^= number >> shift_;
      }
    } while (number >= count_);
    return number;
  }
  std::uint64_t number_at(std::uint64_t place) const {
    do {
      for (int round = 0; round < kRounds; ++round) {
        place ^= place >> shift_;
        place = (place - kAdded) * kInverse & mask_;
      }
    } while (place >= count_);
    return place;
  }

 private:
  static constexpr int kRounds = 3;
  static constexpr std::uint64_t kFactor = 0xBF58476D1CE4E5B9ULL, kInverse = 0x96DE1B173F119089ULL;
  static constexpr std::uint64_t kAdded = 0x9E3779B97F4A7C15ULL;
  static_assert(kFactor * kInverse == 1);

  std::uint64_t count_, mask_;
  int shift_;  // half of the bits at least, so that it undoes itself
};

/// Ranks 0 .. count-1 with probability proportional to 1 / (rank+1)^theta, as YCSB draws them (Gray et al.,
/// "Quickly generating billion-record synthetic databases", SIGMOD 1994). 0 <= theta < 1; theta 0 is uniform.
class Zipf {
 public:
  Zipf(std::uint64_t count, double theta)
      : count_(static_cast<double>(count)), theta_(theta), zeta_(zeta(count, theta)) {
    const double zeta_two = 1 + std::pow(0.5, theta);
    alpha_ = 1 / (1 - theta);
    eta_ = (1 - std::pow(2 / count_, 1 - theta)) / (1 - zeta_two / zeta_);
    two_ = zeta_two;
  }

  std::uint64_t draw(pcg32& random) const {
    const double u = static_cast<double>(random()) * 0x1p-32;
    const double uz = u * zeta_;
    if (uz < 1) return 0;
    if (uz < two_) return 1;
    const double rank = count_ * std::pow(eta_ * u - eta_ + 1, alpha_);
    return static_cast<std::uint64_t>(std::min(rank, count_ - 1));
  }

  /// Ranks that are drawn nearly as often as each other, and the share of the draws that they have together.
  struct Ranks {
    std::uint64_t count;
    double share;
  };
  /// Four for each power of two, the most often drawn first.
  std::vector<Ranks> classes() const {
    std::vector<Ranks> classes;
    const auto count = static_cast<std::uint64_t>(count_);
    for (std::uint64_t first = 0, next = 0; first < count; first = next) {
      const std::uint64_t step = std::max<std::uint64_t>(std::bit_floor(first + 1) / 4, 1);
      next = std::min(first + step, count);
      classes.push_back({next - first, (zeta(next, theta_) - zeta(first, theta_)) / zeta_});
    }
    return classes;
  }
  /// The place of a rank's among them.
  static std::size_t class_of(std::uint64_t rank) {
    const std::uint64_t number = rank + 1;
    const int power = static_cast<int>(std::bit_width(number)) - 1;
    if (power < 2) return rank;
    return static_cast<std::size_t>(4 * (power - 2) + 3) + (number >> (power - 2) & 3);
  }

 private:
  /// The first terms summed, the rest as an integral: exact enough, and set-up does not grow with the table.
  static double zeta(std::uint64_t count, double theta) {
    constexpr std::uint64_t kSummed = 10'000;
    double sum = 0;
    for (std::uint64_t i = 1; i <= std::min(count, kSummed); ++i)
      sum += std::pow(static_cast<double>(i), -theta);
    if (count <= kSummed) return sum;
    const double a = static_cast<double>(kSummed) + 0.5, b = static_cast<double>(count) + 0.5;
    return sum + (std::pow(b, 1 - theta) - std::pow(a, 1 - theta)) / (1 - theta);
  }

  double count_, theta_, zeta_, alpha_ = 0, eta_ = 0, two_ = 0;
};

}  // namespace verbtwin::protocols
