#include "protocols/checks/report.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace verbtwin::protocols {

std::string to_string(RecordId record) {
  return fmt::format("{}/{}/{}", record.table(), record.partition(), record.key());
}

std::string to_string(RecordId record, std::uint64_t version) {
  return fmt::format("{}@{}", to_string(record), version);
}

Findings::Kind* Findings::find(std::string_view kind) {
  const auto known = std::ranges::find(kinds_, kind, &Kind::name);
  return known == kinds_.end() ? nullptr : &*known;
}

CheckReport Findings::report(std::string_view name, std::uint64_t transactions) const {
  CheckReport result{std::string(name), transactions, 0, {}, {}};
  result.add(*this);
  return result;
}

void CheckReport::add(const Findings& more) {
  for (const Findings::Kind& kind : more.kinds_) {
    violations += kind.count;
    const std::string others = kind.count > 1 ? fmt::format(" (and {} more)", kind.count - 1) : "";
    examples.push_back(fmt::format("{}: {}{}", kind.name, kind.example, others));
  }
}

}  // namespace verbtwin::protocols
