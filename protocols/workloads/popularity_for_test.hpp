// What tests of workloads compare: what a workload says of its records' popularity, and what it draws.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <pcg_random.hpp>
#include <vector>

#include "protocols/workloads/workload.hpp"

namespace verbtwin::protocols {

/// What a workload says of its records' popularity holds: `drawn_records` gives those that a request looks up
/// which may be at other nodes.
template <typename DrawnRecords>
void expect_classes_as_drawn(const Workload& workload, int draws, const DrawnRecords& drawn_records) {
  const std::vector<RecordClass>& classes = workload.classes();
  double expected_in_all = 0;
  for (const RecordClass& one : classes) expected_in_all += one.drawn * static_cast<double>(one.records);
  ASSERT_GT(expected_in_all, 0);
  std::vector<double> drawn(classes.size());
  double in_all = 0;
  pcg32 random(1);
  for (int i = 0; i < draws; ++i) {
    for (const RecordId record : drawn_records(workload.draw(random, {}))) {
      const std::size_t its_class = workload.class_of(record);
      ASSERT_LT(its_class, classes.size());
      ASSERT_EQ(classes[its_class].table, record.table());
      ++drawn[its_class];
      ++in_all;
    }
  }
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const double expected = classes[i].drawn * static_cast<double>(classes[i].records) / expected_in_all;
    EXPECT_NEAR(drawn[i] / in_all, expected, 0.006 + 0.03 * expected) << "class " << i;
  }
}

/// Each class has as many records as it says.
inline void expect_classes_counted(const Workload& workload, int nodes) {
  const std::vector<TableSpec> tables = workload.tables();
  std::vector<std::uint64_t> counted(workload.classes().size());
  for (std::uint32_t table = 0; table < tables.size(); ++table) {
    for (int node = 0; node < nodes; ++node) {
      for (std::uint64_t key = 0; key < tables[table].records; ++key) {
        const std::size_t its_class =
            workload.class_of(RecordId::make(table, static_cast<std::uint32_t>(node), key));
        if (its_class != Popularity::kNoClass) ++counted.at(its_class);
      }
    }
  }
  for (std::size_t i = 0; i < counted.size(); ++i)
    EXPECT_EQ(counted[i], workload.classes()[i].records) << "class " << i;
}

}  // namespace verbtwin::protocols
