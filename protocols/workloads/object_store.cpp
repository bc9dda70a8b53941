#include "protocols/workloads/object_store.hpp"

#include <algorithm>
#include <cstring>

#include "backend/user_error.hpp"
#include "protocols/parameters.hpp"
#include "protocols/workloads/draws.hpp"
#include "protocols/workloads/invariants.hpp"

namespace verbtwin::protocols {

namespace {

constexpr std::array<std::string_view, 2> kNames = {"read", "update"};
constexpr std::size_t kObjectsMax = 64;

class ObjectStore final : public Workload {
 public:
  ObjectStore(const nlohmann::json& parameters, int nodes, int threads)
      : nodes_(static_cast<std::uint64_t>(nodes)),
        per_node_(parameters.at("objects_per_thread").get<std::uint64_t>() *
                  static_cast<std::uint64_t>(threads)),
        objects_(per_node_ * nodes_),
        reads_(parameters.at("reads").get<std::size_t>()),
        updates_(parameters.at("updates").get<std::size_t>()),
        value_b_(parameters.at("value_b").get<std::uint32_t>()),
        is_skewed_(parameters.value("theta", 0.0) > 0),
        zipf_(objects_, parameters.value("theta", 0.0)),
        places_(objects_) {
    if (updates_ > reads_) {
      throw UserError("/workload/updates", std::to_string(updates_) + " of " + std::to_string(reads_) +
                                               " objects cannot be updated; allowed: integer, 0 to " +
                                               std::to_string(reads_) + " (workload.reads)");
    }
    if (reads_ > objects_) {
      throw UserError("/workload/reads", "there are " + std::to_string(objects_) +
                                             " objects; allowed: integer, 1 to " + std::to_string(objects_));
    }
    if (!is_skewed_) {
      classes_ = {{0, objects_, 1}};
      return;
    }
    for (const Zipf::Ranks& ranks : zipf_.classes())
      classes_.push_back({0, ranks.count, ranks.share / static_cast<double>(ranks.count)});
  }

  std::span<const std::string_view> transaction_names() const override { return kNames; }
  std::vector<TableSpec> tables() const override { return {{"objects", value_b_, per_node_}}; }
  PhaseCycles cycles() const override { return {}; }
  std::size_t records_max() const override { return reads_; }
  std::size_t writes_max() const override { return std::max<std::size_t>(updates_, 1); }

  bool initial_value(RecordId record, std::span<std::byte> value) const override {
    std::ranges::fill(value, static_cast<std::byte>(spread(record.packed)));
    store_word(value.data(), initial_count(record));
    return true;
  }

  const std::vector<RecordClass>& classes() const override { return classes_; }
  std::size_t class_of(RecordId record) const override {
    if (!is_skewed_) return 0;
    return Zipf::class_of(places_.number_at(record.key() * nodes_ + record.partition()));
  }

  Request draw(pcg32& random, Client) const override {
    Request request;
    request.type = updates_ > 0 ? 1 : 0;
    request.arguments[0] = random();
    request.arguments[1] = random();
    return request;
  }

  Task<Outcome> run(Transaction& tx, Request request) const override {
    // The request's own stream: a retry touches the same objects.
    pcg32 random(request.arguments[0], request.arguments[1]);
    std::array<std::uint64_t, kObjectsMax> objects{};
    for (std::size_t i = 0; i < reads_; ++i) {
      const auto taken = std::span(objects).first(i);
      do {
        objects[i] = is_skewed_ ? places_.place_of(zipf_.draw(random)) : draw_below(random, objects_);
      } while (std::ranges::find(taken, objects[i]) != taken.end());
      const RecordId record =
          RecordId::make(0, static_cast<std::uint32_t>(objects[i] % nodes_), objects[i] / nodes_);
      if (i < updates_) {
        tx.update(record);
      } else {
        tx.read(record);
      }
    }
    auto executing = tx.execute();
    if (!co_await executing) co_return Outcome::kAborted;
    for (std::size_t i = 0; i < updates_; ++i) {
      const int object = static_cast<int>(i);
      const std::uint64_t count = ++tx.value<std::uint64_t>(object);
      mark_lines(tx.bytes(object), count);
    }
    auto committing = tx.commit(static_cast<std::int64_t>(updates_));
    co_return outcome_of(co_await committing);
  }

  CheckReport check_invariant(const GroupedAccesses& accesses, const FinalValue& value) const override {
    return check_updates(accesses, value_b_, value, initial_count);
  }

 private:
  static std::uint64_t initial_count(RecordId record) { return spread(record.packed) >> 32; }

  std::uint64_t nodes_, per_node_, objects_;
  std::vector<RecordClass> classes_;
  std::size_t reads_, updates_;
  std::uint32_t value_b_;
  bool is_skewed_;
  Zipf zipf_;
  Permutation places_;  // of objects in the order of their popularity, where that differs
};

}  // namespace

RegistryEntry object_store_entry() {
  using namespace parameters;
  return {"object_store",
          "Object store O(r, w): r random objects read, w of them updated (FaSST)",
          {{"properties",
            {{"reads", number(4, 1, kObjectsMax, "r: objects of a transaction")},
             {"updates", number(2, 0, kObjectsMax, "w: how many of them it updates")},
             {"objects_per_thread", number(1'000'000, 1, 100'000'000,
                                           "objects per worker thread; a node holds threads times as many")},
             {"theta", real(0, 0, 0.999, "skew of the Zipf distribution of objects; 0: uniform")},
             {"value_b", number(40, 8, 1024, "size of a value")}}}}};
}

std::unique_ptr<Workload> make_object_store(const nlohmann::json& parameters, int nodes, int threads) {
  return std::make_unique<ObjectStore>(parameters, nodes, threads);
}

}  // namespace verbtwin::protocols
