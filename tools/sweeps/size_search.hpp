// The search for a size: the smallest cluster that meets goals, found by running a few.
//
// What is asked for at least (a rate) decides where it begins: it is taken to grow with the cluster until it
// is reached. What is allowed at most (a latency, aborts) is looked at where the rate is reached: mostly it
// gets worse from there on, as every machine brings its own clients. Where it is missed, larger clusters are
// tried until two of them in a row are hardly better, and the smallest between is found by halves. A rate may
// fall again there (contexts that a NIC no longer holds): who misses it then meets nothing either.
//
// A latency may also be kept by a few sizes between two that miss it. Where these miss it narrowly, or where
// it fell steeply from one to the other, the sizes between are looked at, too, until some of that were in
// vain; which sizes nobody tried is told.
//
// Chosen: from the lowest size on, the next one guessed from the rate per machine so far, then between one
// that falls short and one that does not, guesses and halves by turns; the answer and the size below it have
// both run. Rejected: every size (a hundred runs for what takes four), fitting a scaling law (an answer
// nobody has run), halves only (three times the runs, as rates are nearly proportional to machines).
//
// A value; one thread.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "tools/sweeps/goal.hpp"

namespace verbtwin::tools {

/// Which sizes to run, and the smallest that meets all goals.
class SizeSearch {
 public:
  /// Between `low` and `high` machines, both included.
  SizeSearch(const std::vector<Goal>& goals, int low, int high);

  /// Over: none.
  std::optional<int> next() const;
  /// Of a size that ran before: what it is taken for from now on.
  void add(int nodes, const nlohmann::json& result);
  /// Once next() is none: the smallest that meets all goals, else the smallest that reaches the rates.
  std::optional<int> found() const;
  bool met_by(const nlohmann::json& result) const;

  using Range = std::pair<int, int>;  // both included
  /// Those below found() that might meet all goals for all that is known: the rates are reached.
  std::vector<Range> not_tried() const;

 private:
  /// How many times its rates would have to be, and how many times what is allowed at most it has, or its
  /// rates would have to be: 1 at most where it is enough.
  struct Size {
    double growth, excess;
    bool is_out_of_reach;  // by larger ones, too
  };
  using Sizes = std::map<int, Size>;

  Sizes::const_iterator enough() const;     // the smallest known to reach the rates
  Sizes::const_iterator meets_all() const;  // the smallest known to
  Size judged(const nlohmann::json& result) const;
  std::optional<int> next_for_rates() const;
  std::optional<int> next_for_limits() const;
  std::optional<int> next_between() const;
  int guess(Sizes::const_iterator size) const;

  std::vector<Goal> rates_, limits_;
  int low_, high_;
  Sizes sizes_;             // that ran
  int below_enough_ = 0;    // runs since there was one that is enough
  int looked_in_vain_ = 0;  // between sizes that miss the goals
};

}  // namespace verbtwin::tools
