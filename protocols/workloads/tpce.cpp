#include "protocols/workloads/tpce.hpp"

#include <algorithm>
#include <cstring>

#include "protocols/parameters.hpp"
#include "protocols/workloads/draws.hpp"
#include "protocols/workloads/invariants.hpp"

namespace verbtwin::protocols {

namespace {

enum Table : std::uint32_t { kCustomer, kAccount, kHolding, kLastTrade };
constexpr std::array<std::string_view, 1> kNames = {"customer_position"};

// Clause 2.6.1: 685 securities for 1,000 customers; accounts of a customer by its tier, five on average; an
// account holds ten securities on average. EGen's most are 18; how it spreads them is taken as uniform here.
constexpr std::uint32_t kAccountsMax = 10;
constexpr std::uint32_t kHoldingsMin = 2, kHoldingsMax = 18;  // of an account
constexpr std::uint32_t kSecuritiesPerThousand = 685;

struct Customer {
  std::uint64_t id;
  std::uint32_t tier, accounts;
};
struct Account {
  std::int64_t balance_cents;
  std::uint32_t holdings, padding;
};
struct Holding {
  std::uint32_t security, quantity;
};
struct LastTrade {
  std::int64_t price_cents, volume;
};

class Tpce final : public Workload {
 public:
  Tpce(const nlohmann::json& parameters, int nodes)
      : nodes_(static_cast<std::uint64_t>(nodes)),
        per_node_(parameters.at("customers_per_node").get<std::uint64_t>()),
        securities_per_node_(std::max<std::uint64_t>(1, per_node_ * kSecuritiesPerThousand / 1000)) {}

  std::span<const std::string_view> transaction_names() const override { return kNames; }
  std::vector<TableSpec> tables() const override {
    const std::uint64_t accounts = per_node_ * kAccountsMax;
    return {{"customer", sizeof(Customer), per_node_, true},
            {"account", sizeof(Account), accounts, true},
            {"holding", sizeof(Holding), accounts * kHoldingsMax, true},
            {"last_trade", sizeof(LastTrade), securities_per_node_}};
  }
  PhaseCycles cycles() const override { return {}; }
  std::size_t records_max() const override { return 1 + kAccountsMax * (1 + 2 * kHoldingsMax); }
  std::size_t writes_max() const override { return 1; }

  bool initial_value(RecordId record, std::span<std::byte> value) const override;

  const std::vector<RecordClass>& classes() const override { return classes_; }
  std::size_t class_of(RecordId record) const override { return record.table() == kLastTrade ? 0 : kNoClass; }

  Request draw(pcg32& random, Client client) const override {
    Request request;
    request.arguments[0] = draw_below(random, per_node_) * nodes_ + static_cast<std::uint64_t>(client.node);
    return request;
  }

  Task<Outcome> run(Transaction& tx, Request request) const override {
    const std::uint64_t c = request.arguments[0];
    const int customer = tx.read(at(kCustomer, c, 0, 1));
    auto finding = tx.execute();
    if (!co_await finding) co_return Outcome::kAborted;
    const int accounts = static_cast<int>(tx.value<Customer>(customer).accounts);
    for (int a = 0; a < accounts; ++a) tx.read(at(kAccount, c, static_cast<std::uint64_t>(a), kAccountsMax));
    auto reading = tx.execute();
    if (!co_await reading) co_return Outcome::kAborted;
    int holdings = 0;
    for (int a = 0; a < accounts; ++a) {
      const std::uint32_t held = tx.value<Account>(customer + 1 + a).holdings;
      for (std::uint32_t h = 0; h < held; ++h) {
        tx.read(
            at(kHolding, c, static_cast<std::uint64_t>(a) * kHoldingsMax + h, kAccountsMax * kHoldingsMax));
        ++holdings;
      }
    }
    auto reading_holdings = tx.execute();
    if (!co_await reading_holdings) co_return Outcome::kAborted;
    const int first = customer + 1 + accounts;
    std::vector<std::uint32_t> securities;
    for (int h = 0; h < holdings; ++h) securities.push_back(tx.value<Holding>(first + h).security);
    std::ranges::sort(securities);
    securities.erase(std::unique(securities.begin(), securities.end()), securities.end());
    for (const std::uint32_t s : securities) {
      tx.read(RecordId::make(kLastTrade, static_cast<std::uint32_t>(s % nodes_), s / nodes_));
    }
    auto reading_prices = tx.execute();
    if (!co_await reading_prices) co_return Outcome::kAborted;
    auto committing = tx.commit(0);
    co_return outcome_of(co_await committing);
  }

  CheckReport check_invariant(const GroupedAccesses& accesses, const FinalValue&) const override {
    return check_sum("nothing_written", "rows", accesses, [](RecordId) -> std::int64_t { return 1; });
  }

 private:
  RecordId at(std::uint32_t table, std::uint64_t customer, std::uint64_t row, std::uint64_t rows) const {
    return RecordId::make(table, static_cast<std::uint32_t>(customer % nodes_),
                          customer / nodes_ * rows + row);
  }

  std::uint64_t nodes_, per_node_, securities_per_node_;
  std::vector<RecordClass> classes_{
      {kLastTrade, nodes_* securities_per_node_, 1}};  // all else is of the customer's own node
};

bool Tpce::initial_value(RecordId record, std::span<std::byte> value) const {
  const std::uint64_t drawn = spread(record.packed);
  const auto put = [&](const auto& row) {
    std::memcpy(value.data(), &row, sizeof row);
    return true;
  };
  switch (record.table()) {
    case kCustomer: {
      // Tiers 1, 2, 3 are 20, 60, 20 %, with 1-4, 2-8, 5-10 accounts (clause 2.6.1.8).
      const std::uint64_t percent = drawn % 100;
      const std::uint32_t tier = percent < 20 ? 1 : percent < 80 ? 2 : 3;
      constexpr std::array<std::uint32_t, 4> kLow = {0, 1, 2, 5}, kHigh = {0, 4, 8, kAccountsMax};
      const auto spread_b = static_cast<std::uint32_t>(drawn >> 32);
      return put(Customer{record.key(), tier, kLow[tier] + spread_b % (kHigh[tier] - kLow[tier] + 1)});
    }
    case kAccount:
      return put(Account{
          static_cast<std::int64_t>(drawn % 10'000'000),
          static_cast<std::uint32_t>(kHoldingsMin + (drawn >> 32) % (kHoldingsMax - kHoldingsMin + 1)), 0});
    case kHolding:
      return put(Holding{static_cast<std::uint32_t>((drawn >> 16) % (securities_per_node_ * nodes_)),
                         static_cast<std::uint32_t>(1 + drawn % 800)});
    default:
      return put(LastTrade{static_cast<std::int64_t>(2'000 + drawn % 1'000), 0});
  }
}

}  // namespace

RegistryEntry tpce_entry() {
  using namespace parameters;
  return {"tpce_customer_position",
          "TPC-E customer-position: read-only, a customer's holdings at prices from many partitions",
          {{"properties",
            {{"customers_per_node",
              number(5000, 1, 100'000'000,
                     "customers of a node; there are 685 securities for 1,000 of them")}}}}};
}

std::unique_ptr<Workload> make_tpce(const nlohmann::json& parameters, int nodes, int) {
  return std::make_unique<Tpce>(parameters, nodes);
}

}  // namespace verbtwin::protocols
