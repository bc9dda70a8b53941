#include "protocols/workloads/ycsb.hpp"

#include <algorithm>
#include <cstring>

#include "protocols/workloads/draws.hpp"
#include "protocols/workloads/invariants.hpp"

namespace verbtwin::protocols {

namespace {

enum Operation : std::uint32_t { kRead, kUpdate, kInsert, kScan, kReadModifyWrite };
constexpr std::array<std::string_view, 5> kNames = {"read", "update", "insert", "scan", "read_modify_write"};
constexpr std::uint32_t kScanMax = 100;

/// Percent of each operation.
using Mix = std::array<std::uint32_t, 5>;
Mix mix_of(const std::string& letter) {
  switch (letter.front()) {
    case 'A':
      return {50, 50, 0, 0, 0};
    case 'B':
      return {95, 5, 0, 0, 0};
    case 'C':
      return {100, 0, 0, 0, 0};
    case 'D':
      return {95, 0, 5, 0, 0};
    case 'E':
      return {0, 0, 5, 95, 0};
    default:
      return {50, 0, 0, 0, 50};
  }
}

class Ycsb final : public Workload {
 public:
  Ycsb(const nlohmann::json& parameters, int nodes)
      : nodes_(static_cast<std::uint64_t>(nodes)),
        per_node_(parameters.at("records_per_node").get<std::uint64_t>()),
        records_(nodes_ * per_node_),
        mix_(mix_of(parameters.at("mix"))),
        latest_(parameters.at("mix") == "D"),
        value_b_(parameters.at("value_b").get<std::uint32_t>()),
        zipf_(records_, parameters.at("theta").get<double>()) {}

  std::span<const std::string_view> transaction_names() const override { return kNames; }
  /// The second half of each partition's keys is empty at first.
  std::vector<TableSpec> tables() const override { return {{"usertable", value_b_, 2 * per_node_, 0}}; }
  PhaseCycles cycles() const override { return {}; }
  std::size_t records_max() const override { return mix_[kScan] > 0 ? kScanMax : 1; }
  std::size_t writes_max() const override { return 1; }

  bool initial_value(RecordId record, std::span<std::byte> value) const override {
    std::ranges::fill(value, static_cast<std::byte>(spread(record.packed)));
    store_word(value.data(), 0);
    return record.key() < per_node_;
  }

  bool popular(RecordId) const override { return false; }
  std::uint64_t popular_records() const override { return 0; }
  std::uint64_t records() const override { return 2 * records_; }

  Request draw(pcg32& random, Client) const override {
    Request request;
    request.type = draw_percent(random, mix_);
    const std::uint64_t rank = zipf_.draw(random);
    const std::uint64_t scrambled = spread(rank) % records_;
    request.arguments[0] = scrambled;
    if (latest_) request.arguments[0] = records_ + scrambled;
    if (request.type == kInsert) request.arguments[0] = records_ + draw_below(random, records_);
    request.arguments[1] = draw_between(random, 1, kScanMax);
    return request;
  }

  Task<Outcome> run(Transaction& tx, Request request) const override {
    const bool writes = request.type != kRead && request.type != kScan;
    const std::uint64_t last = request.type == kScan
                                   ? std::min(request.arguments[0] + request.arguments[1], 2 * records_) - 1
                                   : request.arguments[0];
    for (std::uint64_t key = request.arguments[0]; key <= last; ++key) {
      if (writes) {
        tx.update(record(key));
      } else {
        tx.read(record(key));
      }
    }
    auto executing = tx.execute();
    if (!co_await executing) co_return Outcome::kAborted;
    if (writes) {
      if (!tx.exists(0)) tx.value<std::uint64_t>(0) = 0;
      tx.insert(0);
      ++tx.value<std::uint64_t>(0);
    }
    auto committing = tx.commit(writes ? 1 : 0);
    co_return outcome_of(co_await committing);
  }

  CheckReport check_invariant(std::span<const History* const> histories,
                              const FinalValue& value) const override {
    std::vector<std::byte> bytes(value_b_);
    return check_sum("updates", "updates", histories, [&](RecordId record) {
      value(record, bytes);
      return static_cast<std::int64_t>(load_word(bytes.data()));
    });
  }

 private:
  /// Keys below records_ exist at first, those above do not.
  RecordId record(std::uint64_t key) const {
    const std::uint64_t inserted = key / records_, place = key % records_;
    return RecordId::make(0, static_cast<std::uint32_t>(place % nodes_),
                          inserted * per_node_ + place / nodes_);
  }

  std::uint64_t nodes_, per_node_, records_;
  Mix mix_;
  bool latest_;
  std::uint32_t value_b_;
  Zipf zipf_;
};

}  // namespace

RegistryEntry ycsb_entry() {
  return {"ycsb",
          "YCSB core workloads A to F, one operation a transaction",
          {{"properties",
            {{"mix",
              {{"type", "string"},
               {"enum", {"A", "B", "C", "D", "E", "F"}},
               {"default", "A"},
               {"description",
                "A 50 % updates, B 5 %, C reads only, D inserts and reads of the latest, E scans, "
                "F read-modify-writes"}}},
             {"theta",
              {{"type", "number"},
               {"minimum", 0},
               {"maximum", 0.999},
               {"default", 0.99},
               {"description", "skew of the Zipf distribution; 0: uniform"}}},
             {"records_per_node",
              {{"type", "integer"},
               {"minimum", 1},
               {"maximum", 1'000'000'000},
               {"default", 1'000'000},
               {"description", "records of a node at first; inserts may add as many"}}},
             {"value_b",
              {{"type", "integer"},
               {"minimum", 8},
               {"maximum", 3000},
               {"default", 1000},
               {"description", "size of a record: ten fields of 100 B in the benchmark"}}}}}}};
}

std::unique_ptr<Workload> make_ycsb(const nlohmann::json& parameters, int nodes, int) {
  return std::make_unique<Ycsb>(parameters, nodes);
}

}  // namespace verbtwin::protocols
