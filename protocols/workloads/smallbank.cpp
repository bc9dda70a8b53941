#include "protocols/workloads/smallbank.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "protocols/parameters.hpp"
#include "protocols/workloads/draws.hpp"
#include "protocols/workloads/invariants.hpp"
#include "protocols/workloads/mix.hpp"

namespace verbtwin::protocols {

namespace {

constexpr std::uint32_t kSavings = 0;
constexpr std::uint32_t kChecking = 1;

enum Type : std::uint32_t {
  kAmalgamate,
  kBalance,
  kDepositChecking,
  kSendPayment,
  kTransactSavings,
  kWriteCheck
};
constexpr std::array<std::string_view, 6> kNames = {"amalgamate",   "balance",          "deposit_checking",
                                                    "send_payment", "transact_savings", "write_check"};
constexpr MixPercent<6> kMixPercent = {15, 15, 15, 25, 15, 15};

// The amounts of the benchmark's reference code, in cents.
constexpr std::int64_t kDepositCents = 130;
constexpr std::int64_t kSavingsCents = 2020;
constexpr std::int64_t kPaymentCents = 500;
constexpr std::int64_t kCheckCents = 500;
constexpr std::int64_t kOverdraftCents = 100;

class SmallBank final : public Workload {
 public:
  SmallBank(const nlohmann::json& parameters, int nodes, int threads)
      : nodes_(static_cast<std::uint64_t>(nodes)),
        per_node_(parameters.at("accounts_per_thread").get<std::uint64_t>() *
                  static_cast<std::uint64_t>(threads)),
        accounts_(per_node_ * nodes_),
        hot_(std::max<std::uint64_t>(
            2, static_cast<std::uint64_t>(std::llround(parameters.at("hot_fraction").get<double>() *
                                                       static_cast<double>(accounts_))))),
        hot_permille_(
            static_cast<std::uint32_t>(std::lround(parameters.at("hot_probability").get<double>() * 1000))),
        inverted_(parameters.value("hot_set_inverted", false)),
        mix_(mix_percent_of(parameters, kNames, kMixPercent)) {
    if (hot_ + 2 > accounts_) hot_ = accounts_;
    const double hit = hot_ == accounts_ ? 1 : hot_permille_ / 1000.0, all = static_cast<double>(accounts_);
    const double hot = static_cast<double>(hot_), cold = std::max(all - hot, 1.0);
    const double of_hot = inverted_ ? (1 - hit) / hot + hit / all : hit / hot;
    const double of_cold = inverted_ ? hit / all : (1 - hit) / cold;
    for (const std::uint32_t table : {kSavings, kChecking}) {
      classes_.push_back({table, hot_, of_hot});
      classes_.push_back({table, accounts_ - hot_, of_cold});
    }
  }

  std::span<const std::string_view> transaction_names() const override { return kNames; }

  std::vector<TableSpec> tables() const override {
    return {{"savings", 8, per_node_}, {"checking", 8, per_node_}};
  }

  PhaseCycles cycles() const override { return {678, 185, 134, 87}; }  // Wei et al., OSDI 2018, table 3
  std::size_t records_max() const override { return 3; }
  std::size_t writes_max() const override { return 3; }

  bool initial_value(RecordId record, std::span<std::byte> value) const override {
    const std::int64_t cents = initial_cents(record);
    std::memcpy(value.data(), &cents, sizeof cents);
    return true;
  }

  const std::vector<RecordClass>& classes() const override { return classes_; }
  std::size_t class_of(RecordId record) const override {
    const bool hot = record.key() * nodes_ + record.partition() < hot_;
    return 2 * record.table() + (hot ? 0 : 1);
  }

  Request draw(pcg32& random, Client) const override {
    Request request;
    request.type = draw_percent(random, mix_);
    request.arguments[0] = pick(random);
    do {
      request.arguments[1] = pick(random);
    } while (request.arguments[1] == request.arguments[0]);
    return request;
  }

  Task<Outcome> run(Transaction& tx, Request request) const override {
    switch (request.type) {
      case kAmalgamate:
        return amalgamate(tx, request.arguments[0], request.arguments[1]);
      case kBalance:
        return balance(tx, request.arguments[0]);
      case kDepositChecking:
        return add_to(tx, record(kChecking, request.arguments[0]), kDepositCents);
      case kSendPayment:
        return send_payment(tx, request.arguments[0], request.arguments[1]);
      case kTransactSavings:
        return add_to(tx, record(kSavings, request.arguments[0]), kSavingsCents);
      default:
        return write_check(tx, request.arguments[0]);
    }
  }

  CheckReport check_invariant(const GroupedAccesses& accesses, const FinalValue& value) const override {
    return check_sum("money", "cents", accesses, [&](RecordId record) {
      std::int64_t cents = 0;
      value(record, std::as_writable_bytes(std::span(&cents, 1)));
      return cents - initial_cents(record);
    });
  }

 private:
  RecordId record(std::uint32_t table, std::uint64_t account) const {
    return RecordId::make(table, static_cast<std::uint32_t>(account % nodes_), account / nodes_);
  }

  std::uint64_t pick(pcg32& random) const {
    if (hot_ == accounts_) return draw_below(random, hot_);
    const bool hit = random(1000) < hot_permille_;
    if (inverted_) return draw_below(random, hit ? accounts_ : hot_);
    if (hit) return draw_below(random, hot_);
    return hot_ + draw_below(random, accounts_ - hot_);
  }

  /// 10,000 to 50,000 dollars, as the benchmark loads them, but known from the account's number alone.
  static std::int64_t initial_cents(RecordId record) {
    return 1'000'000 + static_cast<std::int64_t>((record.packed * 0x9E3779B97F4A7C15ULL) >> 32) % 4'000'000;
  }

  Task<Outcome> balance(Transaction& tx, std::uint64_t account) const {
    tx.read(record(kSavings, account));
    tx.read(record(kChecking, account));
    auto executing = tx.execute();
    if (!co_await executing) co_return Outcome::kAborted;
    auto committing = tx.commit(0);
    co_return outcome_of(co_await committing);
  }

  Task<Outcome> add_to(Transaction& tx, RecordId account, std::int64_t cents) const {
    const int balance = tx.update(account);
    auto executing = tx.execute();
    if (!co_await executing) co_return Outcome::kAborted;
    tx.value<std::int64_t>(balance) += cents;
    auto committing = tx.commit(cents);
    co_return outcome_of(co_await committing);
  }

  Task<Outcome> send_payment(Transaction& tx, std::uint64_t from, std::uint64_t to) const {
    const int source = tx.update(record(kChecking, from));
    const int target = tx.update(record(kChecking, to));
    auto executing = tx.execute();
    if (!co_await executing) co_return Outcome::kAborted;
    if (tx.value<std::int64_t>(source) < kPaymentCents) co_return Outcome::kUserAborted;
    tx.value<std::int64_t>(source) -= kPaymentCents;
    tx.value<std::int64_t>(target) += kPaymentCents;
    auto committing = tx.commit(0);
    co_return outcome_of(co_await committing);
  }

  Task<Outcome> amalgamate(Transaction& tx, std::uint64_t from, std::uint64_t to) const {
    const int savings = tx.update(record(kSavings, from));
    const int checking = tx.update(record(kChecking, from));
    const int target = tx.update(record(kChecking, to));
    auto executing = tx.execute();
    if (!co_await executing) co_return Outcome::kAborted;
    tx.value<std::int64_t>(target) += tx.value<std::int64_t>(savings) + tx.value<std::int64_t>(checking);
    tx.value<std::int64_t>(savings) = 0;
    tx.value<std::int64_t>(checking) = 0;
    auto committing = tx.commit(0);
    co_return outcome_of(co_await committing);
  }

  Task<Outcome> write_check(Transaction& tx, std::uint64_t account) const {
    const int savings = tx.read(record(kSavings, account));
    const int checking = tx.update(record(kChecking, account));
    auto executing = tx.execute();
    if (!co_await executing) co_return Outcome::kAborted;
    const std::int64_t funds = tx.value<std::int64_t>(savings) + tx.value<std::int64_t>(checking);
    const std::int64_t cents = funds < kCheckCents ? kCheckCents + kOverdraftCents : kCheckCents;
    tx.value<std::int64_t>(checking) -= cents;
    auto committing = tx.commit(-cents);
    co_return outcome_of(co_await committing);
  }

  std::uint64_t nodes_, per_node_, accounts_, hot_;
  std::uint32_t hot_permille_;
  bool inverted_;
  MixPercent<6> mix_;
  std::vector<RecordClass> classes_;
};

}  // namespace

RegistryEntry smallbank_entry() {
  using namespace parameters;
  return {
      "smallbank",
      "SmallBank: six short banking transactions, 15 % of them read-only, on a small hot set",
      {{"properties",
        {{"accounts_per_thread",
          number(100'000, 2, 100'000'000, "accounts per worker thread; a node holds threads times as many")},
         {"hot_fraction", real(0.04, 0, 1, "share of the accounts that is hot; two at least")},
         {"hot_probability",
          real(0.9, 0, 1, "share of the picks that go to hot accounts, to the tenth of a percent")},
         {"hot_set_inverted",
          flag(false,
               "artifact compatibility: hot_probability of the picks go over all accounts, the rest to "
               "hot ones")},
         {"mix_percent",
          mix_percent_schema(kNames, "the benchmark's, 25 for send_payment and 15 for each other")}}}}};
}

std::unique_ptr<Workload> make_smallbank(const nlohmann::json& parameters, int nodes, int threads) {
  return std::make_unique<SmallBank>(parameters, nodes, threads);
}

}  // namespace verbtwin::protocols
