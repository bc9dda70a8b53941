// Histories written by hand or by a generator, for the tests of the checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocols/checks/history.hpp"

namespace verbtwin::protocols {

inline constexpr RecordId kX = RecordId::make(0, 1, 10);
inline constexpr RecordId kY = RecordId::make(1, 2, 20);

/// The digest of what the tests' transactions write: different for each version of each record.
inline std::uint64_t digest_of(RecordId record, std::uint64_t version) {
  return (record.packed + version * 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9;
}

inline std::uint64_t initial_digest_of(RecordId record) {
  return digest_of(record, 0);
}

inline Access at(RecordId record, std::uint64_t version) {
  return {record, version, digest_of(record, version)};
}

/// The same version of the same record with another value.
inline Access torn(RecordId record, std::uint64_t version) {
  return {record, version, digest_of(record, version) ^ 1};
}

struct TestTransaction {
  std::vector<Access> reads;
  std::vector<Access> writes;
  Interval when{};
};

/// Histories of several workers in the shape that the checks take.
class TestHistories {
 public:
  explicit TestHistories(std::size_t workers = 1) : histories_(workers) {
    for (const History& history : histories_) view_.push_back(&history);
  }
  TestHistories(const TestHistories&) = delete;  // view_ points into histories_
  TestHistories& operator=(const TestHistories&) = delete;

  TestHistories& add(const TestTransaction& transaction, std::size_t worker = 0) {
    histories_[worker].commit(transaction.reads, transaction.writes, 0, transaction.when);
    return *this;
  }

  TestHistories& abort(RecordId record, std::size_t worker = 0) {
    histories_[worker].abort(record);
    return *this;
  }

  std::span<const History* const> view() const { return view_; }

 private:
  std::vector<History> histories_;
  std::vector<const History*> view_;
};

}  // namespace verbtwin::protocols
