// CheckedResult: a result as a user's file has it, which may be anything.
//
// Looks at a Document that outlives it, at the whole of it or at a point of a sweep's; const calls from any
// thread. What is there with a wrong type, or is a number that no run gives, is refused with its place
// (UserError, the whole line). A member that is null is as one that is not there.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "scenarios/document.hpp"

namespace verbtwin::tools {

class CheckedResult {
 public:
  /// `at`: the JSON pointer to the result. Refused: what is none, or one of another version.
  explicit CheckedResult(const scenarios::Document& document, std::string at = "");

  const scenarios::Document& document() const { return document_; }

  bool has(const std::string& pointer) const { return find(pointer) != nullptr; }
  /// 0 or more, and no more than any run gives; a ratio is 1 at most.
  std::optional<double> number(const std::string& pointer) const;
  /// The same as the document has it; 0 where there is none.
  nlohmann::json number_as_given(const std::string& pointer) const;
  /// Likewise, of any size: it has more digits than a double.
  nlohmann::json seed() const;
  /// Empty where there is none.
  std::string text(const std::string& pointer) const;
  /// False where there is none.
  bool flag(const std::string& pointer) const;
  /// Empty ones where there are none.
  const nlohmann::json& object(const std::string& pointer) const;
  const nlohmann::json& list(const std::string& pointer) const;

  [[noreturn]] void refuse(const std::string& pointer, const std::string& what) const;

 private:
  const nlohmann::json* find(const std::string& pointer) const;
  std::optional<double> number_up_to(double most, const std::string& pointer) const;
  const nlohmann::json& container(const std::string& pointer, const nlohmann::json& nothing,
                                  const char* what) const;

  const scenarios::Document& document_;
  std::string at_;
};

/// What a result is, for the head of a page and for programs: "file", "name", "backend", "seed", "window_us",
/// "partial", ... (RESULT.md "A comparison").
nlohmann::json describe(const CheckedResult& result);

/// Why a result so described is not to be trusted: "FAILED: rank 1 was lost", "PARTIAL", "CHECKS FAILED: 3
/// violations"; or nothing.
std::string trouble_of(const nlohmann::json& described);

}  // namespace verbtwin::tools
