// CheckReport: what a check of a finished run found. Plain data, owned by whoever asked for the check.
//
// Reports are deterministic: they depend on the histories and their order only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/checks/history.hpp"

namespace verbtwin::protocols {

class Findings;

/// What a check counts although the isolation level allows it.
struct AllowedCount {
  std::string name;
  std::uint64_t count = 0;
};

struct CheckReport {
  std::string name;
  std::uint64_t transactions = 0;  // committed transactions judged
  std::uint64_t violations = 0;
  /// One line for each kind of violation: the first one found, and how many.
  std::vector<std::string> examples;
  std::vector<AllowedCount> allowed;

  void add(const Findings& more);
};

/// "table/partition/key".
std::string to_string(RecordId record);

/// "table/partition/key@version".
std::string to_string(RecordId record, std::uint64_t version);

/// Collects the violations of one check. Only the first of each kind is put into words: a broken run has
/// millions.
class Findings {
 public:
  /// `kind` must be a literal; `describe()` returns the example's text.
  template <typename Describe>
  void add(std::string_view kind, const Describe& describe, std::uint64_t count = 1) {
    Kind* known = find(kind);
    if (known == nullptr) {
      kinds_.push_back({kind, 0, describe()});
      known = &kinds_.back();
    }
    known->count += count;
  }

  CheckReport report(std::string_view name, std::uint64_t transactions) const;

 private:
  friend struct CheckReport;

  struct Kind {
    std::string_view name;
    std::uint64_t count;
    std::string example;
  };

  Kind* find(std::string_view kind);

  std::vector<Kind> kinds_;  // a handful, in the order found
};

}  // namespace verbtwin::protocols
