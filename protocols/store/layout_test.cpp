#include "protocols/store/layout.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>

#include "protocols/store/cluster_hash.hpp"

namespace verbtwin::protocols {
namespace {

struct Area {
  std::uint64_t begin, end;
};

std::vector<Area> areas_of(const StoreLayout& layout, int threads) {
  std::vector<Area> areas;
  const auto add = [&](std::uint64_t begin, std::uint64_t bytes) { areas.push_back({begin, begin + bytes}); };
  for (std::uint32_t t = 0; t < layout.tables(); ++t) {
    const StoreLayout::Table& table = layout.table(t);
    for (int rank = 0; rank < layout.replicas(); ++rank) {
      add(layout.record_offset(t, rank, 0), table.spec.records * table.record.stride_b);
    }
    add(table.buckets_at, table.bucket_count * ClusterHash::kBucketBytes);
  }
  for (int node = 0; node < layout.nodes(); ++node) {
    for (int thread = 0; thread < threads; ++thread) {
      for (std::uint64_t at = 0; at < layout.log().ring_b; at += layout.log().part_b())
        add(layout.log_offset(node, thread, at), layout.log().part_b());
    }
  }
  for (int thread = 0; thread < threads; ++thread) add(layout.worker_offset(thread), layout.worker_bytes());
  return areas;
}

TEST(StoreLayoutProperty, NothingOverlapsAndEverythingIsAligned) {
  EXPECT_TRUE(rc::check([] {
    std::vector<TableSpec> tables(*rc::gen::inRange<std::size_t>(1, 5));
    for (TableSpec& table : tables) {
      table.value_b = *rc::gen::inRange<std::uint32_t>(1, 301);
      table.records = *rc::gen::inRange<std::uint64_t>(0, 5000);
    }
    const int nodes = *rc::gen::inRange(1, 9), threads = *rc::gen::inRange(1, 9);
    const int replicas = *rc::gen::inRange(1, nodes + 1);
    LogSpec log{*rc::gen::inRange<std::uint32_t>(4, 20) * 1024, 256};
    log.segment_b = *rc::gen::element(0U, 512U, 1024U);
    const auto worker_b = *rc::gen::inRange<std::size_t>(0, 20'000);
    const StoreLayout layout(tables, log, nodes, threads, replicas, worker_b);

    std::vector<Area> areas = areas_of(layout, threads);
    for (const Area& area : areas) {
      RC_ASSERT(area.begin > 0U);  // a location of 0 means none
      RC_ASSERT(area.begin % kCacheLineBytes == 0U);
      RC_ASSERT(area.end <= layout.total_bytes());
    }
    std::erase_if(areas, [](const Area& area) { return area.begin == area.end; });
    std::ranges::sort(areas, {}, &Area::begin);
    for (std::size_t i = 1; i < areas.size(); ++i) RC_ASSERT(areas[i - 1].end <= areas[i].begin);
    RC_ASSERT(layout.worker_bytes() >= worker_b);
    for (std::uint32_t t = 0; t < layout.tables(); ++t) {
      RC_ASSERT(layout.table(t).bucket_count >= 1U);
      RC_ASSERT(layout.table(t).bucket_count * ClusterHash::kKeysPerBucket >= tables[t].records);
    }
  }));
}

TEST(StoreLayout, EveryPartitionHasItsPrimaryAndBackups) {
  for (int nodes = 1; nodes <= 6; ++nodes) {
    for (int replicas = 1; replicas <= nodes; ++replicas) {
      const StoreLayout layout({{"t", 8, 100}}, {}, nodes, 1, replicas, 4096);
      for (int partition = 0; partition < nodes; ++partition) {
        std::set<int> holders;
        for (int rank = 0; rank < replicas; ++rank) {
          const int node = layout.backup_node(partition, rank);
          holders.insert(node);
          EXPECT_EQ(layout.rank_of(node, partition), rank);
        }
        EXPECT_EQ(layout.backup_node(partition, 0), partition);
        EXPECT_EQ(holders.size(), static_cast<std::size_t>(replicas));
        for (int node = 0; node < nodes; ++node) {
          EXPECT_EQ(layout.rank_of(node, partition) >= 0, holders.contains(node));
        }
      }
    }
  }
}

/// Each record is in one, where the layout has it.
TEST(StoreLayout, ANeighbourhoodHoldsItsRecords) {
  const StoreLayout layout({{"a", 8, 20}, {"b", 100, 20}}, {}, 3, 2, 3, 4096);
  for (std::uint32_t table = 0; table < 2; ++table) {
    const RecordLayout& record = layout.table(table).record;
    for (std::uint64_t key = 0; key < 20; ++key) {
      const StoreLayout::Neighbourhood all = layout.neighbourhood(table, key);
      EXPECT_EQ(all.offset, layout.record_offset(table, 0, key / 8 * 8));
      EXPECT_EQ(all.offset + all.record_at, layout.record_offset(table, 0, key));
      const std::uint32_t records = key < 16 ? 8 : 4;
      EXPECT_EQ(all.bytes, (records - 1) * record.stride_b + record.image_b);
    }
  }
}

TEST(StoreLayout, RecordsAreAStrideApart) {
  const StoreLayout layout({{"a", 8, 100}, {"b", 100, 100}}, {}, 3, 2, 3, 4096);
  for (std::uint32_t table = 0; table < 2; ++table) {
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(layout.record_offset(table, rank, 7),
                layout.record_offset(table, rank, 0) + 7 * RecordLayout(table == 0 ? 8 : 100).stride_b);
    }
  }
}

}  // namespace
}  // namespace verbtwin::protocols
