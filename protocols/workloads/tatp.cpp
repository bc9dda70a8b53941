#include "protocols/workloads/tatp.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "protocols/parameters.hpp"
#include "protocols/workloads/draws.hpp"
#include "protocols/workloads/invariants.hpp"
#include "protocols/workloads/mix.hpp"

namespace verbtwin::protocols {

namespace {

enum Table : std::uint32_t { kSubscriber, kAccessInfo, kSpecialFacility, kCallForwarding, kNumberIndex };
constexpr std::size_t kTables = 5;
constexpr std::uint32_t kTypes = 4;   // access information and special facilities of a subscriber, at most
constexpr std::uint32_t kStarts = 3;  // call forwardings of a facility: starting at 0, 8 and 16 hours

enum Type : std::uint32_t {
  kGetSubscriberData,
  kGetAccessData,
  kGetNewDestination,
  kUpdateSubscriberData,
  kUpdateLocation,
  kInsertCallForwarding,
  kDeleteCallForwarding
};
constexpr std::array<std::string_view, 7> kNames = {
    "get_subscriber_data", "get_access_data",        "get_new_destination",   "update_subscriber_data",
    "update_location",     "insert_call_forwarding", "delete_call_forwarding"};
constexpr MixPercent<7> kMixPercent = {35, 35, 10, 2, 14, 2, 2};

/// Of a subscriber.
constexpr std::array<std::uint32_t, kTables> kRowsOfTable = {1, kTypes, kTypes, kTypes* kStarts, 1};

/// How many rows of each table a hundred transactions look at.
std::array<double, kTables> accesses_of_tables(const MixPercent<7>& mix) {
  const double forwarding = mix[kInsertCallForwarding] + mix[kDeleteCallForwarding];
  const double destinations = mix[kGetNewDestination];
  return {static_cast<double>(mix[kGetSubscriberData] + mix[kUpdateSubscriberData] + mix[kUpdateLocation]),
          static_cast<double>(mix[kGetAccessData]), destinations + mix[kUpdateSubscriberData] + forwarding,
          destinations * (1 + kStarts) / 2.0 + forwarding, mix[kUpdateLocation] + forwarding};
}

struct Subscriber {
  std::uint64_t number;
  std::uint32_t bits, vlr_location, msc_location;
  std::array<std::uint8_t, 20> hex_and_bytes;
};
static_assert(sizeof(Subscriber) == 40);
struct AccessInfo {
  std::array<std::uint8_t, 16> data;
};
struct SpecialFacility {
  std::uint8_t active, error_control, data_a;
  std::array<char, 5> data_b;
};
static_assert(sizeof(SpecialFacility) == 8);
struct CallForwarding {
  std::uint8_t end_hour;
  std::array<char, 15> number;
};
static_assert(sizeof(CallForwarding) == 16);
struct NumberEntry {
  std::uint64_t subscriber;
};

/// The request's inputs, drawn once.
struct Inputs {
  std::uint64_t subscriber;
  std::uint32_t type, start, end, value;
};

/// How many numbers below `count` have at least so many ones among their lowest bits.
std::uint64_t with_ones(std::uint64_t count, int bits, int ones) {
  std::uint64_t sum = 0;
  for (int bit = 63; bit >= 0; --bit) {
    if ((count >> bit & 1) == 0) continue;
    // Those that agree with `count` above this bit and have a zero here: what is below is free.
    const int free = std::min(bit, bits);
    std::uint64_t chosen = 1;  // x of the free ones
    for (int x = 0; x <= free; ++x) {
      if (x >= ones) sum += chosen << (bit - free);
      chosen = chosen * static_cast<std::uint64_t>(free - x) / static_cast<std::uint64_t>(x + 1);
    }
    if (bit < bits) --ones;
  }
  return sum;
}

class Tatp final : public Workload {
 public:
  Tatp(const nlohmann::json& parameters, int nodes)
      : nodes_(static_cast<std::uint64_t>(nodes)),
        per_node_(parameters.at("subscribers_per_node").get<std::uint64_t>()),
        subscribers_(nodes_ * per_node_),
        places_(subscribers_),
        mix_(mix_percent_of(parameters, kNames, kMixPercent)) {
    const std::array<double, kTables> accesses = accesses_of_tables(mix_);
    // Where the draws wrap around nobody stands out.
    if (subscribers_ > mask()) bits_ = static_cast<int>(std::bit_width(mask()));
    // Whose number has x ones among a mask's n bits is drawn 3^x / 2^n as often as the average.
    for (std::uint32_t table = 0; table < kTables; ++table) {
      const double each = accesses[table] / kRowsOfTable[table] / std::pow(2, bits_);
      for (int ones = 0; ones <= bits_; ++ones) {
        const std::uint64_t subscribers =
            with_ones(subscribers_, bits_, ones) - with_ones(subscribers_, bits_, ones + 1);
        classes_.push_back({table, kRowsOfTable[table] * subscribers, each * std::pow(3, ones)});
      }
    }
  }

  std::span<const std::string_view> transaction_names() const override { return kNames; }
  std::vector<TableSpec> tables() const override {
    const std::uint64_t s = per_node_;
    return {{"subscriber", sizeof(Subscriber), s},
            {"access_info", sizeof(AccessInfo), s * kTypes},
            {"special_facility", sizeof(SpecialFacility), s * kTypes},
            {"call_forwarding", sizeof(CallForwarding), s * kTypes * kStarts},
            {"number_index", sizeof(NumberEntry), s}};
  }
  PhaseCycles cycles() const override { return {}; }
  std::size_t records_max() const override { return 1 + kStarts; }
  std::size_t writes_max() const override { return 2; }

  bool initial_value(RecordId record, std::span<std::byte> value) const override;

  const std::vector<RecordClass>& classes() const override { return classes_; }
  std::size_t class_of(RecordId record) const override {
    const std::uint64_t drawn = places_.number_at(place_of(record)) & ((1ULL << bits_) - 1);
    return record.table() * static_cast<std::size_t>(bits_ + 1) +
           static_cast<std::size_t>(std::popcount(drawn));
  }

  Request draw(pcg32& random, Client) const override {
    Request request;
    request.type = draw_percent(random, mix_);
    request.arguments[0] = (draw_below(random, mask() + 1) | draw_below(random, subscribers_)) % subscribers_;
    request.arguments[1] = random();
    return request;
  }

  Task<Outcome> run(Transaction& tx, Request request) const override {
    const Inputs inputs = inputs_of(request);
    switch (request.type) {
      case kGetSubscriberData:
        return get(tx, subscriber(inputs.subscriber));
      case kGetAccessData:
        return get(tx, access_info(inputs.subscriber, inputs.type));
      case kGetNewDestination:
        return get_new_destination(tx, inputs);
      case kUpdateSubscriberData:
        return update_subscriber_data(tx, inputs);
      case kUpdateLocation:
        return update_location(tx, inputs);
      case kInsertCallForwarding:
        return change_call_forwarding(tx, inputs, true);
      default:
        return change_call_forwarding(tx, inputs, false);
    }
  }

  /// What is updated, inserted and deleted must add up to what transactions say that they did.
  CheckReport check_invariant(const GroupedAccesses& accesses, const FinalValue& value) const override {
    return check_sum("rows", "units", accesses, [&](RecordId record) -> std::int64_t {
      const auto change = [&]<typename Row>(Row now) {
        Row before{};
        const bool exists = value(record, std::as_writable_bytes(std::span(&now, 1)));
        const bool existed = initial_value(record, std::as_writable_bytes(std::span(&before, 1)));
        return (exists ? amount(now) : 0) - (existed ? amount(before) : 0);
      };
      if (record.table() == kSubscriber) return change(Subscriber{});
      if (record.table() == kSpecialFacility) return change(SpecialFacility{});
      return record.table() == kCallForwarding ? change(CallForwarding{}) : 0;
    });
  }

 private:
  /// Of what transactions change in a row that exists.
  static std::int64_t amount(const Subscriber& row) { return std::int64_t{row.bits} + row.vlr_location; }
  static std::int64_t amount(const SpecialFacility& row) { return row.data_a; }
  static std::int64_t amount(const CallForwarding& row) { return 1 + row.end_hour; }

  static Inputs inputs_of(const Request& request) {
    pcg32 random(request.arguments[1], request.type);
    Inputs inputs{request.arguments[0], random(kTypes), random(kStarts), 0, 0};
    inputs.end = 1 + random(24);
    inputs.value = random();
    return inputs;
  }

  /// NURand (clause 1.3): popular subscribers have many ones in their low bits.
  std::uint64_t mask() const {
    return subscribers_ <= 1'000'000 ? 65'535 : subscribers_ <= 10'000'000 ? 1'048'575 : 2'097'151;
  }

  RecordId at(std::uint32_t table, std::uint64_t s, std::uint64_t row, std::uint64_t rows) const {
    const std::uint64_t place = places_.place_of(s);
    return RecordId::make(table, static_cast<std::uint32_t>(place % nodes_), place / nodes_ * rows + row);
  }
  RecordId subscriber(std::uint64_t s) const { return at(kSubscriber, s, 0, 1); }
  RecordId access_info(std::uint64_t s, std::uint32_t type) const { return at(kAccessInfo, s, type, kTypes); }
  RecordId special_facility(std::uint64_t s, std::uint32_t type) const {
    return at(kSpecialFacility, s, type, kTypes);
  }
  RecordId call_forwarding(std::uint64_t s, std::uint32_t type, std::uint32_t start) const {
    return at(kCallForwarding, s, type * kStarts + start, kTypes * kStarts);
  }
  /// Where the entry of a subscriber's number is: elsewhere than the subscriber, as a hash would have it.
  RecordId number_index(std::uint64_t s) const {
    const std::uint64_t place = places_.place_of(s), row = place / nodes_;
    return RecordId::make(kNumberIndex, static_cast<std::uint32_t>((place + row) % nodes_), row);
  }
  /// Of the subscriber that a row belongs to.
  std::uint64_t place_of(RecordId record) const {
    const std::uint64_t row = record.key() / kRowsOfTable[record.table()];
    const std::uint64_t turned = record.table() == kNumberIndex ? nodes_ - row % nodes_ : 0;
    return row * nodes_ + (record.partition() + turned) % nodes_;
  }

  /// One to four of the four types, each as likely (clause 1.3): which ones, as bits.
  static std::uint32_t types_of(std::uint64_t place, std::uint64_t salt) {
    const std::uint64_t drawn = spread(place * 2 + salt);
    const auto rotation = static_cast<std::uint32_t>(drawn >> 8 & 3);
    const std::uint32_t run = (1U << (1 + (drawn & 3))) - 1;
    return (run << rotation | run >> (kTypes - rotation)) & 15;
  }

  Task<Outcome> get(Transaction& tx, RecordId record) const;
  Task<Outcome> get_new_destination(Transaction& tx, Inputs inputs) const;
  Task<Outcome> update_subscriber_data(Transaction& tx, Inputs inputs) const;
  Task<Outcome> update_location(Transaction& tx, Inputs inputs) const;
  Task<Outcome> change_call_forwarding(Transaction& tx, Inputs inputs, bool insert) const;

  /// Of one that only reads. Without a row that was to be there it ends by its own rules, validated as well.
  static Outcome outcome(bool committed, bool found) {
    if (!committed) return Outcome::kAborted;
    return found ? Outcome::kCommitted : Outcome::kUserAborted;
  }

  std::uint64_t nodes_, per_node_, subscribers_;
  Permutation places_;  // subscribers' among all partitions'
  MixPercent<7> mix_;
  int bits_ = 0;                      // of the mask
  std::vector<RecordClass> classes_;  // by table and ones
};

bool Tatp::initial_value(RecordId record, std::span<std::byte> value) const {
  const std::uint64_t key = record.key();
  const std::uint64_t drawn = spread(record.packed);
  for (std::size_t at = 0; at < value.size(); at += 8) {
    std::memcpy(value.data() + at, &drawn, std::min<std::size_t>(8, value.size() - at));
  }
  const std::uint64_t place = place_of(record);
  const auto has_facility = [&](std::uint64_t type) { return (types_of(place, 1) >> type & 1) != 0; };
  switch (record.table()) {
    case kSubscriber:
      std::memcpy(value.data(), &key, sizeof key);
      return true;
    case kAccessInfo:
      return (types_of(place, 0) >> key % kTypes & 1) != 0;
    case kSpecialFacility:
      value[0] = static_cast<std::byte>(drawn % 100 < 85);
      return has_facility(key % kTypes);
    case kCallForwarding:
      value[0] = static_cast<std::byte>(1 + (drawn >> 8) % 24);
      return (drawn & 1) != 0 && has_facility(key / kStarts % kTypes);
    default: {
      const std::uint64_t s = places_.number_at(place);
      std::memcpy(value.data(), &s, sizeof s);
      return true;
    }
  }
}

Task<Outcome> Tatp::get(Transaction& tx, RecordId record) const {
  const int row = tx.read(record);
  auto reading = tx.execute();
  if (!co_await reading) co_return Outcome::kAborted;
  const bool found = tx.exists(row);
  auto committing = tx.commit(0);
  co_return outcome(co_await committing, found);
}

Task<Outcome> Tatp::get_new_destination(Transaction& tx, Inputs inputs) const {
  const int facility = tx.read(special_facility(inputs.subscriber, inputs.type));
  const int first = tx.read(call_forwarding(inputs.subscriber, inputs.type, 0));
  for (std::uint32_t start = 1; start <= inputs.start; ++start) {
    tx.read(call_forwarding(inputs.subscriber, inputs.type, start));
  }
  auto reading = tx.execute();
  if (!co_await reading) co_return Outcome::kAborted;
  bool found = false;
  for (std::uint32_t start = 0; start <= inputs.start; ++start) {
    const int row = first + static_cast<int>(start);
    found = found || (tx.exists(row) && tx.value<CallForwarding>(row).end_hour > inputs.end);
  }
  found = found && tx.exists(facility) && tx.value<SpecialFacility>(facility).active != 0;
  auto committing = tx.commit(0);
  co_return outcome(co_await committing, found);
}

Task<Outcome> Tatp::update_subscriber_data(Transaction& tx, Inputs inputs) const {
  const int row = tx.update(subscriber(inputs.subscriber));
  const int facility = tx.update(special_facility(inputs.subscriber, inputs.type));
  auto reading = tx.execute();
  if (!co_await reading) co_return Outcome::kAborted;
  if (!tx.exists(facility)) co_return Outcome::kUserAborted;  // the update of both is rolled back
  Subscriber& changed = tx.value<Subscriber>(row);
  SpecialFacility& its_facility = tx.value<SpecialFacility>(facility);
  const std::int64_t before = amount(changed) + amount(its_facility);
  changed.bits = inputs.value & 1;
  its_facility.data_a = static_cast<std::uint8_t>(inputs.value >> 8);
  auto committing = tx.commit(amount(changed) + amount(its_facility) - before);
  co_return outcome(co_await committing, true);
}

Task<Outcome> Tatp::update_location(Transaction& tx, Inputs inputs) const {
  const int entry = tx.read(number_index(inputs.subscriber));
  auto finding = tx.execute();
  if (!co_await finding) co_return Outcome::kAborted;
  const int row = tx.update(subscriber(tx.value<NumberEntry>(entry).subscriber));
  auto reading = tx.execute();
  if (!co_await reading) co_return Outcome::kAborted;
  Subscriber& changed = tx.value<Subscriber>(row);
  const std::int64_t before = amount(changed);
  changed.vlr_location = inputs.value;
  auto committing = tx.commit(amount(changed) - before);
  co_return outcome(co_await committing, true);
}

Task<Outcome> Tatp::change_call_forwarding(Transaction& tx, Inputs inputs, bool insert) const {
  const int entry = tx.read(number_index(inputs.subscriber));
  auto finding = tx.execute();
  if (!co_await finding) co_return Outcome::kAborted;
  const std::uint64_t s = tx.value<NumberEntry>(entry).subscriber;
  // A forwarding exists only where its facility does: a delete does not look at that.
  const int facility = insert ? tx.read(special_facility(s, inputs.type)) : 0;
  const int row = tx.update(call_forwarding(s, inputs.type, inputs.start));
  auto reading = tx.execute();
  if (!co_await reading) co_return Outcome::kAborted;
  if (tx.exists(row) == insert || (insert && !tx.exists(facility))) co_return Outcome::kUserAborted;
  std::int64_t change = 0;
  if (insert) {
    tx.insert(row);
    tx.value<CallForwarding>(row) = {static_cast<std::uint8_t>(inputs.end), {}};
    change = amount(tx.value<CallForwarding>(row));
  } else {
    change = -amount(tx.value<CallForwarding>(row));
    tx.erase(row);
  }
  auto committing = tx.commit(change);
  co_return outcome(co_await committing, true);
}

}  // namespace

RegistryEntry tatp_entry() {
  using namespace parameters;
  return {"tatp",
          "TATP: seven short telecom transactions, 80 % of them read-only, with inserts and deletes",
          {{"properties",
            {{"subscribers_per_node", number(1'000'000, 1, 1'000'000'000, "subscribers of a node")},
             {"mix_percent", mix_percent_schema(kNames, "the benchmark's, 35 35 10 2 14 2 2")}}}}};
}

std::unique_ptr<Workload> make_tatp(const nlohmann::json& parameters, int nodes, int) {
  return std::make_unique<Tatp>(parameters, nodes);
}

}  // namespace verbtwin::protocols
