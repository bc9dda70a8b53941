// The five transactions of TPC-C, clauses 2.4 to 2.8.
#include <algorithm>
#include <cstring>

#include "protocols/workloads/draws.hpp"
#include "protocols/workloads/tpcc.hpp"

namespace verbtwin::protocols::tpcc {

namespace {

struct Ordered {
  std::uint32_t item, warehouse, quantity;
  int stock;  // its place in the transaction
};

struct Basket {
  std::array<Ordered, kLinesMax> lines;
  std::uint32_t count = 0;
  bool all_local = true;
  std::span<Ordered> all() { return std::span(lines).first(count); }
};

/// The items of a new-order, each one once.
Basket draw_basket(Terminal& terminal) {
  Basket basket;
  const std::uint32_t count = draw_between(terminal.random(), kLinesMin, kLinesMax);
  while (basket.count < count) {
    const std::uint32_t item = terminal.item();
    if (std::ranges::find(basket.all(), item, &Ordered::item) != basket.all().end()) continue;
    const bool remote = terminal.line_is_remote();
    const std::uint32_t warehouse = remote ? terminal.other_warehouse() : terminal.home();
    basket.all_local = basket.all_local && !remote;
    basket.lines[basket.count++] = {item, warehouse, draw_between(terminal.random(), 1, 10), 0};
  }
  return basket;
}

void take_from_stock(Stock& stock, std::uint32_t quantity, bool remote) {
  const auto taken = static_cast<std::int32_t>(quantity);
  stock.quantity += stock.quantity >= taken + 10 ? -taken : 91 - taken;
  stock.ytd += quantity;
  ++stock.orders;
  stock.remote_orders += remote ? 1U : 0U;
}

}  // namespace

Task<Outcome> run_new_order(const Data& data, Transaction& tx, Terminal terminal, bool delivered) {
  const std::uint32_t w = terminal.home(), d = terminal.district(), c = terminal.customer();
  Basket basket = draw_basket(terminal);
  const bool unused_item = draw_chance(terminal.random(), 10'000);  // 1 % are rolled back, clause 2.4.1.4

  tx.read(data.warehouse(w));
  const int district = tx.update(data.district(w, d));
  tx.read(data.customer(w, d, c));
  for (Ordered& line : basket.all()) line.stock = tx.update(data.stock(line.warehouse, line.item));
  tx.look_up_local(basket.count);  // the items' prices
  auto fetching = tx.execute();
  if (!co_await fetching) co_return Outcome::kAborted;
  if (unused_item) co_return Outcome::kUserAborted;

  const std::uint64_t o = tx.value<District>(district).next_order++;
  const int order = tx.update(data.order(w, d, o));
  const int new_order = tx.update(data.new_order(w, d, o));
  const int last_order = tx.update(data.last_order(w, d, c));
  int line_at = 0;
  for (std::uint32_t i = 0; i < basket.count; ++i) {
    const int line = tx.update(data.order_line(w, d, o, i));
    if (i == 0) line_at = line;
  }
  auto inserting = tx.execute();
  if (!co_await inserting) co_return Outcome::kAborted;
  // One of this very number: somebody else was faster, and this attempt will abort.
  if (tx.exists(order) && tx.value<Order>(order).entered < o) {
    // The place of an older one, of which nothing is to stay: lines that this one has not, and, if it has not
    // been delivered, that it is the next one. Where nobody delivers that stays the first one there was.
    const std::uint32_t old_lines = tx.value<Order>(order).lines;
    const bool lost = delivered && tx.exists(new_order);
    const int cleared = line_at + static_cast<int>(basket.count);
    for (std::uint32_t i = basket.count; i < old_lines; ++i) tx.update(data.order_line(w, d, o, i));
    const int cursor = lost ? tx.update(data.delivery_cursor(w, d)) : 0;
    auto clearing = tx.execute();
    if (!co_await clearing) co_return Outcome::kAborted;
    for (std::uint32_t i = basket.count; i < old_lines; ++i)
      tx.erase(cleared + static_cast<int>(i - basket.count));
    if (lost) tx.value<DeliveryCursor>(cursor).next = o - data.orders_max() + 1;
  }

  tx.insert(order);
  tx.value<Order>(order) = {o, c, static_cast<std::uint16_t>(basket.count), 0,
                            static_cast<std::uint8_t>(basket.all_local)};
  tx.insert(new_order);
  tx.value<NewOrder>(new_order) = {o};
  tx.value<LastOrder>(last_order) = {o};
  std::int64_t ordered = 0;
  for (std::uint32_t i = 0; i < basket.count; ++i) {
    const Ordered& line = basket.lines[i];
    take_from_stock(tx.value<Stock>(line.stock), line.quantity, line.warehouse != w);
    ordered += line.quantity;
    const int row = line_at + static_cast<int>(i);
    tx.insert(row);
    tx.value<OrderLine>(row) = {
        line.item, line.warehouse, line.quantity * data.price_cents(line.item), 0, line.quantity, {}, 0};
  }
  auto committing = tx.commit(ordered);
  co_return outcome_of(co_await committing);
}

namespace {

/// Clause 2.5.2.2: at the left of what is there, whose end is cut off.
void note_payment(CustomerData& row, const std::array<std::uint32_t, 6>& note) {
  std::memmove(row.text.data() + sizeof note, row.text.data(), row.text.size() - sizeof note);
  std::memcpy(row.text.data(), note.data(), sizeof note);
}

}  // namespace

Task<Outcome> run_payment(const Data& data, Transaction& tx, Terminal terminal) {
  const std::uint32_t w = terminal.home(), d = terminal.district();
  const std::uint32_t customer_w = terminal.payment_is_remote() ? terminal.other_warehouse() : w;
  const std::uint32_t customer_d = customer_w == w ? d : terminal.district();
  const bool by_name = terminal.is_by_name();
  const std::uint32_t c = by_name ? terminal.customer_by_name() : terminal.customer();
  const std::uint32_t cents = draw_between(terminal.random(), 100, 500'000);

  if (by_name) tx.look_up_local(1);
  const int warehouse = tx.update(data.warehouse(w));
  const int district = tx.update(data.district(w, d));
  const int customer = tx.update(data.customer(customer_w, customer_d, c));
  auto fetching = tx.execute();
  if (!co_await fetching) co_return Outcome::kAborted;
  tx.value<Warehouse>(warehouse).ytd_cents += cents;
  tx.value<District>(district).ytd_cents += cents;
  Customer& payer = tx.value<Customer>(customer);
  payer.balance_cents -= cents;
  payer.ytd_payment_cents += cents;
  ++payer.payments;
  const bool noted = payer.bad_credit != 0;
  const std::uint32_t number = tx.value<District>(district).next_history++;

  const int history = tx.update(data.history(w, d, number));
  const int customer_data = noted ? tx.update(data.customer_data(customer_w, customer_d, c)) : 0;
  auto inserting = tx.execute();
  if (!co_await inserting) co_return Outcome::kAborted;
  tx.insert(history);
  tx.value<History>(history) = {cents, c, customer_d, customer_w, 0, {}};
  if (noted) note_payment(tx.value<CustomerData>(customer_data), {c, customer_d, customer_w, d, w, cents});
  auto committing = tx.commit(0);
  co_return outcome_of(co_await committing);
}

Task<Outcome> run_order_status(const Data& data, Transaction& tx, Terminal terminal) {
  const std::uint32_t w = terminal.home(), d = terminal.district();
  const bool by_name = terminal.is_by_name();
  const std::uint32_t c = by_name ? terminal.customer_by_name() : terminal.customer();
  if (by_name) tx.look_up_local(1);
  tx.read(data.customer(w, d, c));
  const int last = tx.read(data.last_order(w, d, c));
  auto finding = tx.execute();
  if (!co_await finding) co_return Outcome::kAborted;
  const std::uint64_t o = tx.value<LastOrder>(last).order;
  const int order = tx.read(data.order(w, d, o));
  auto reading = tx.execute();
  if (!co_await reading) co_return Outcome::kAborted;
  // Unless a newer order has its place.
  const Order found = tx.value<Order>(order);
  for (std::uint32_t line = 0; found.entered == o && line < found.lines; ++line) {
    tx.read(data.order_line(w, d, o, line));
  }
  auto reading_lines = tx.execute();
  if (!co_await reading_lines) co_return Outcome::kAborted;
  auto committing = tx.commit(0);
  co_return outcome_of(co_await committing);
}

namespace {

/// One district's part of a delivery: where its rows are in the transaction.
struct Delivered {
  std::uint64_t order = 0;
  int new_order = 0, order_row = 0, customer = 0;  // the order's lines follow the customer
  int lines = 0;
};
using Deliveries = std::array<Delivered, kDistricts>;

/// The oldest new-order of each district; false: none has any.
bool declare_delivered(const Data& data, Transaction& tx, std::uint32_t w, Deliveries& deliveries) {
  bool any = false;
  for (std::uint32_t d = 0; d < kDistricts; ++d) {
    Delivered& one = deliveries[d];
    if (!tx.exists(one.new_order)) continue;  // nothing to deliver here, clause 2.7.4.2
    any = true;
    const Order order = tx.value<Order>(one.order_row);
    one.lines = order.lines;
    one.customer = tx.update(data.customer(w, d, order.customer));
    for (int line = 0; line < one.lines; ++line) {
      tx.update(data.order_line(w, d, one.order, static_cast<std::uint32_t>(line)));
    }
  }
  return any;
}

void deliver(Transaction& tx, const Delivered& one, int cursor, std::uint8_t carrier) {
  std::int64_t cents = 0;
  for (int line = 0; line < one.lines; ++line) {
    OrderLine& row = tx.value<OrderLine>(one.customer + 1 + line);
    row.delivered = one.order + 1;
    cents += row.amount_cents;
  }
  tx.erase(one.new_order);
  tx.value<Order>(one.order_row).carrier = carrier;
  tx.value<DeliveryCursor>(cursor).next = one.order + 1;
  tx.value<Customer>(one.customer).balance_cents += cents;
  ++tx.value<Customer>(one.customer).deliveries;
}

}  // namespace

/// All ten districts of the warehouse in one transaction.
Task<Outcome> run_delivery(const Data& data, Transaction& tx, Terminal terminal) {
  const std::uint32_t w = terminal.home();
  const std::uint8_t carrier = static_cast<std::uint8_t>(draw_between(terminal.random(), 1, 10));
  Deliveries deliveries;
  for (std::uint32_t d = 0; d < kDistricts; ++d) tx.update(data.delivery_cursor(w, d));
  auto finding = tx.execute();
  if (!co_await finding) co_return Outcome::kAborted;
  for (std::uint32_t d = 0; d < kDistricts; ++d) {
    Delivered& one = deliveries[d];
    one.order = tx.value<DeliveryCursor>(static_cast<int>(d)).next;
    one.new_order = tx.update(data.new_order(w, d, one.order));
    one.order_row = tx.update(data.order(w, d, one.order));
  }
  auto reading = tx.execute();
  if (!co_await reading) co_return Outcome::kAborted;
  if (!declare_delivered(data, tx, w, deliveries)) co_return Outcome::kUserAborted;
  auto reading_lines = tx.execute();
  if (!co_await reading_lines) co_return Outcome::kAborted;
  for (std::uint32_t d = 0; d < kDistricts; ++d) {
    if (deliveries[d].lines > 0) deliver(tx, deliveries[d], static_cast<int>(d), carrier);
  }
  auto committing = tx.commit(0);
  co_return outcome_of(co_await committing);
}

Task<Outcome> run_stock_level(const Data& data, Transaction& tx, Terminal terminal) {
  constexpr std::uint64_t kOrdersLooked = 20;
  const std::uint32_t w = terminal.home(), d = terminal.district();
  const auto threshold = static_cast<std::int32_t>(draw_between(terminal.random(), 10, 20));
  const int district = tx.read(data.district(w, d));
  auto finding = tx.execute();
  if (!co_await finding) co_return Outcome::kAborted;
  const std::uint64_t end = tx.value<District>(district).next_order;
  std::vector<std::uint32_t> items;
  for (std::uint64_t o = end - kOrdersLooked; o < end; ++o) {
    tx.forget();
    for (std::uint32_t line = 0; line < kLinesMax; ++line) tx.read(data.order_line(w, d, o, line));
    auto reading = tx.execute();
    if (!co_await reading) co_return Outcome::kAborted;
    for (int line = 0; line < static_cast<int>(kLinesMax); ++line) {
      if (tx.exists(line)) items.push_back(tx.value<OrderLine>(line).item);
    }
  }
  std::ranges::sort(items);
  items.erase(std::unique(items.begin(), items.end()), items.end());
  [[maybe_unused]] int low = 0;  // what the application shows
  for (std::size_t i = 0; i < items.size();) {
    tx.forget();
    const std::size_t batch = std::min<std::size_t>(items.size() - i, 32);
    for (std::size_t n = 0; n < batch; ++n) tx.read(data.stock(w, items[i + n]));
    auto reading = tx.execute();
    if (!co_await reading) co_return Outcome::kAborted;
    for (int n = 0; n < static_cast<int>(batch); ++n) low += tx.value<Stock>(n).quantity < threshold;
    i += batch;
  }
  tx.forget();
  co_return Outcome::kCommitted;
}

}  // namespace verbtwin::protocols::tpcc
