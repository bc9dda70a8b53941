#include "protocols/workloads/ycsb.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "protocols/parameters.hpp"
#include "protocols/workloads/draws.hpp"
#include "protocols/workloads/invariants.hpp"
#include "protocols/workloads/mix.hpp"

namespace verbtwin::protocols {

namespace {

enum Operation : std::uint32_t { kRead, kUpdate, kInsert, kScan, kReadModifyWrite };
constexpr std::array<std::string_view, 5> kNames = {"read", "update", "insert", "scan", "read_modify_write"};
constexpr std::uint32_t kScanMax = 100;

using Mix = MixPercent<5>;
constexpr auto kMixes = std::to_array<parameters::Word<Mix>>({{"A", {50, 50, 0, 0, 0}},
                                                              {"B", {95, 5, 0, 0, 0}},
                                                              {"C", {100, 0, 0, 0, 0}},
                                                              {"D", {95, 0, 5, 0, 0}},
                                                              {"E", {0, 0, 5, 95, 0}},
                                                              {"F", {50, 0, 0, 0, 50}}});

/// The ordered index that scans use (mix E): leaves of 64 places in a row, a bit for each whose key exists. A
/// leaf is a record like any other, so that what a scan did not find is validated too; it is reached by RPC.
/// Between two keys that are loaded there is room for one that is inserted.
constexpr std::uint64_t kLeafPlaces = 64;
constexpr std::uint64_t kLoadedPlaces = 0x5555'5555'5555'5555, kInsertedPlaces = ~kLoadedPlaces;
constexpr std::size_t kLeavesMax = 8;  // of a scan, which ends behind them
struct Leaf {
  std::uint64_t keys;
};

enum Table : std::uint32_t { kUserTable, kOrderedIndex };

class Ycsb final : public Workload {
 public:
  Ycsb(const nlohmann::json& parameters, int nodes, int threads)
      : nodes_(static_cast<std::uint64_t>(nodes)),
        per_node_(parameters.at("records_per_node").get<std::uint64_t>()),
        records_(nodes_ * per_node_),
        mix_(mix_percent_of(parameters, kNames, parameters::value_of(kMixes, parameters.at("mix")))),
        latest_(parameters.at("mix") == "D"),
        value_b_(parameters.at("value_b").get<std::uint32_t>()),
        zipf_(records_, parameters.at("theta").get<double>()),
        places_(records_),
        threads_(static_cast<std::uint64_t>(threads)),
        inserts_(nodes_ * threads_) {
    // By rank; of the latest, what was loaded last. What a scan reads behind its first key is of any rank.
    const double behind = mix_[kScan] / 100.0 * ((1 + static_cast<double>(kScanMax)) / 2 - 1);
    for (const Zipf::Ranks& ranks : zipf_.classes()) {
      const double each = ranks.share / static_cast<double>(ranks.count);
      classes_.push_back({kUserTable, ranks.count, each + behind / static_cast<double>(records_)});
    }
  }

  std::span<const std::string_view> transaction_names() const override { return kNames; }
  /// The second half of each partition's keys is empty at first.
  std::vector<TableSpec> tables() const override {
    std::vector<TableSpec> tables{{"usertable", value_b_, 2 * per_node_}};
    if (scans()) {
      const std::uint64_t leaves = 2 * records_ / kLeafPlaces + 1;
      tables.push_back({"ordered_index", sizeof(Leaf), leaves / nodes_ + 1, false, true});
    }
    return tables;
  }
  PhaseCycles cycles() const override { return {}; }
  std::size_t records_max() const override { return scans() ? kScanMax + kLeavesMax : 1; }
  std::size_t writes_max() const override { return scans() ? 2 : 1; }

  bool initial_value(RecordId record, std::span<std::byte> value) const override {
    if (record.table() == kOrderedIndex) {
      const std::uint64_t first = (record.key() * nodes_ + record.partition()) * kLeafPlaces;
      const std::uint64_t places = first < 2 * records_ ? std::min(2 * records_ - first, kLeafPlaces) : 0;
      store_word(value.data(),
                 places == kLeafPlaces ? kLoadedPlaces : kLoadedPlaces & ((1ULL << places) - 1));
      return true;
    }
    std::ranges::fill(value, static_cast<std::byte>(spread(record.packed)));
    store_word(value.data(), 0);
    return record.key() < per_node_;
  }

  const std::vector<RecordClass>& classes() const override { return classes_; }
  std::size_t class_of(RecordId record) const override {
    if (record.table() != kUserTable || record.key() >= per_node_) return kNoClass;
    const std::uint64_t number = places_.number_at(record.key() * nodes_ + record.partition());
    return Zipf::class_of(latest_ ? records_ - 1 - number : number);
  }

  Request draw(pcg32& random, Client client) const override {
    Request request;
    request.type = draw_percent(random, mix_);
    const std::uint64_t rank = zipf_.draw(random);
    const auto worker =
        static_cast<std::uint64_t>(client.node) * threads_ + static_cast<std::uint64_t>(client.thread);
    request.arguments[0] = latest_ ? latest_key(worker, rank) : places_.place_of(rank);
    request.arguments[1] = draw_between(random, 1, kScanMax);
    request.arguments[2] = worker;
    if (request.type == kInsert) {
      request.arguments[1] = inserts_[worker].drawn++;
      request.arguments[0] = insert_key(worker, request.arguments[1]);
    }
    return request;
  }

  Task<Outcome> run(Transaction& tx, Request request) const override {
    if (request.type == kScan) return scan(tx, request.arguments[0], request.arguments[1]);
    return one_record(tx, request);
  }

  CheckReport check_invariant(const GroupedAccesses& accesses, const FinalValue& value) const override {
    const auto no_leaf = [&](RecordId record, std::span<std::byte> bytes) {
      if (record.table() == kUserTable) return value(record, bytes);
      store_word(bytes.data(), 0);
      return true;
    };
    CheckReport report = check_updates(accesses, value_b_, no_leaf, [](RecordId) { return 0; });
    if (scans()) check_index(accesses, value, report);
    return report;
  }

 private:
  bool scans() const { return mix_[kScan] > 0; }

  /// Keys below records_ exist at first, those above do not.
  RecordId record(std::uint64_t key) const {
    const std::uint64_t inserted = key / records_, place = key % records_;
    return RecordId::make(kUserTable, static_cast<std::uint32_t>(place % nodes_),
                          inserted * per_node_ + place / nodes_);
  }
  /// A worker's inserts: every n-th key of the second half, of n workers; scattered as the first half's are.
  std::uint64_t insert_key(std::uint64_t worker, std::uint64_t number) const {
    return records_ + places_.place_of((number % stripe() * inserts_.size() + worker) % records_);
  }
  std::uint64_t stripe() const { return std::max<std::uint64_t>(records_ / inserts_.size(), 1); }
  /// The key `back` before the newest one that the worker has inserted; behind its own it is what was loaded.
  std::uint64_t latest_key(std::uint64_t worker, std::uint64_t back) const {
    const std::uint64_t committed = inserts_[worker].committed, own = std::min(committed, stripe());
    if (back < own) return insert_key(worker, committed - 1 - back);
    return places_.place_of(records_ - 1 - (back - own));
  }
  /// Where a key stands in the index, and which one stands there.
  std::uint64_t place_in_index(std::uint64_t key) const {
    return key < records_ ? 2 * key : 2 * (key - records_) + 1;
  }
  std::uint64_t key_at(std::uint64_t place) const { return place / 2 + (place % 2 == 0 ? 0 : records_); }
  RecordId leaf(std::uint64_t number) const {
    return RecordId::make(kOrderedIndex, static_cast<std::uint32_t>(number % nodes_), number / nodes_);
  }

  /// A key that was inserted is in the index, and one that is in the index was inserted.
  void check_index(const GroupedAccesses& accesses, const FinalValue& value, CheckReport& report) const {
    std::vector<std::byte> row(value_b_);
    const auto complain = [&](std::uint64_t key, const char* what) {
      if (report.violations++ < kExamplesMax)
        report.examples.push_back("key " + std::to_string(key) + " is " + what);
    };
    for (const RecordId record : accesses.written()) {
      const std::uint64_t number = record.key() * nodes_ + record.partition();
      Leaf keys{};
      const auto bytes = std::as_writable_bytes(std::span(&keys, 1));
      if (record.table() == kOrderedIndex) {
        value(record, bytes);
        for (std::uint64_t bits = keys.keys & kInsertedPlaces; bits != 0; bits &= bits - 1) {
          const auto bit = static_cast<std::uint64_t>(std::countr_zero(bits));
          const std::uint64_t key = key_at(number * kLeafPlaces + bit);
          if (!value(this->record(key), row)) complain(key, "in the index and not there");
        }
      } else if (number >= records_ && value(record, row)) {
        const std::uint64_t place = place_in_index(number);
        value(leaf(place / kLeafPlaces), bytes);
        if ((keys.keys >> place % kLeafPlaces & 1) == 0) complain(number, "not in the index");
      }
    }
  }

  static constexpr std::uint64_t kExamplesMax = 3;

  Task<Outcome> one_record(Transaction& tx, Request request) const;
  Task<Outcome> scan(Transaction& tx, std::uint64_t from, std::uint64_t count) const;

  std::uint64_t nodes_, per_node_, records_;
  Mix mix_;
  bool latest_;
  std::uint32_t value_b_;
  Zipf zipf_;
  Permutation places_;  // of records in the order of their popularity, or of their insertion, among all keys
  std::vector<RecordClass> classes_;
  std::uint64_t threads_;
  /// How many a worker has drawn, and how many of these are there, all before them too: its coroutines commit
  /// in any order. Only that worker looks at it.
  struct alignas(64) Inserts {
    std::uint64_t drawn = 0, committed = 0;
    std::vector<std::uint64_t> later;  // numbers that are there behind one that is not

    void commit(std::uint64_t number) {
      later.push_back(number);
      while (std::erase(later, committed) > 0) ++committed;
    }
  };
  mutable std::vector<Inserts> inserts_;
};

Task<Outcome> Ycsb::one_record(Transaction& tx, Request request) const {
  const std::uint64_t key = request.arguments[0];
  const bool writes = request.type != kRead, inserts = request.type == kInsert;
  const bool into_index = scans() && inserts;
  const int row = writes ? tx.update(record(key)) : tx.read(record(key));
  const std::uint64_t place = place_in_index(key);
  const int index = into_index ? tx.update(leaf(place / kLeafPlaces)) : 0;
  auto executing = tx.execute();
  if (!co_await executing) co_return Outcome::kAborted;
  const bool found = writes || tx.exists(row);
  if (writes) {
    if (!tx.exists(row)) tx.value<std::uint64_t>(row) = 0;
    tx.insert(row);
    const std::uint64_t count = ++tx.value<std::uint64_t>(row);
    mark_lines(tx.bytes(row), count);
  }
  if (into_index) tx.value<Leaf>(index).keys |= 1ULL << place % kLeafPlaces;
  auto committing = tx.commit(writes ? 1 : 0);
  if (!co_await committing) co_return Outcome::kAborted;
  if (inserts && tx.installs()) inserts_[request.arguments[2]].commit(request.arguments[1]);
  co_return found ? Outcome::kCommitted : Outcome::kUserAborted;
}

/// The next `count` keys that exist: their leaves first, then the records.
Task<Outcome> Ycsb::scan(Transaction& tx, std::uint64_t from, std::uint64_t count) const {
  const std::uint64_t last_leaf = (2 * records_ - 1) / kLeafPlaces;
  std::array<std::uint64_t, kScanMax> keys{};
  std::uint64_t found = 0, at = place_in_index(from);
  std::size_t leaves = 0;
  while (found < count && leaves < kLeavesMax && at / kLeafPlaces <= last_leaf) {
    // As many leaves as do where only loaded keys exist.
    const std::size_t first = leaves;
    const std::uint64_t end = std::min((at + 2 * (count - found - 1)) / kLeafPlaces, last_leaf);
    for (std::uint64_t number = at / kLeafPlaces; number <= end && leaves < kLeavesMax; ++number, ++leaves) {
      tx.read(leaf(number));
    }
    auto looking = tx.execute();
    if (!co_await looking) co_return Outcome::kAborted;
    for (std::size_t i = first; i < leaves; ++i) {
      const std::uint64_t bits = tx.value<Leaf>(static_cast<int>(i)).keys;
      do {
        if (found < count && (bits >> at % kLeafPlaces & 1) != 0) keys[found++] = key_at(at);
      } while (++at % kLeafPlaces != 0);
    }
  }
  for (std::uint64_t i = 0; i < found; ++i) tx.read(record(keys[i]));
  auto reading = tx.execute();
  if (!co_await reading) co_return Outcome::kAborted;
  auto committing = tx.commit(0);
  co_return outcome_of(co_await committing);
}

}  // namespace

RegistryEntry ycsb_entry() {
  using namespace parameters;
  return {
      "ycsb",
      "YCSB core workloads A to F, one operation a transaction",
      {{"properties",
        {{"mix", choice("A", kMixes,
                        "A 50 % updates, B 5 %, C reads only, D inserts and reads of the latest, E scans "
                        "through an ordered index, F 50 % read-modify-writes; an update reads what it "
                        "replaces, so that A and F come out the same")},
         {"mix_percent", mix_percent_schema(kNames, "what `mix` says; reads are of the latest with D alone")},
         {"theta", theta("skew of the Zipf distribution; 0: uniform")},
         {"records_per_node",
          number(1'000'000, 1, 1'000'000'000, "records of a node at first; inserts may add as many")},
         {"value_b", number(1000, 8, 3000, "size of a record: ten fields of 100 B in the benchmark")}}}}};
}

std::unique_ptr<Workload> make_ycsb(const nlohmann::json& parameters, int nodes, int threads) {
  return std::make_unique<Ycsb>(parameters, nodes, threads);
}

}  // namespace verbtwin::protocols
