#include "protocols/store/popularity.hpp"

namespace verbtwin::protocols {

std::vector<bool> popular_classes(const std::vector<RecordClass>& classes) {
  double records = 0, draws = 0;
  for (const RecordClass& one : classes) {
    records += static_cast<double>(one.records);
    draws += static_cast<double>(one.records) * one.drawn;
  }
  std::vector<bool> popular;
  for (const RecordClass& one : classes) popular.push_back(one.drawn * records > 2 * draws);
  return popular;
}

}  // namespace verbtwin::protocols
