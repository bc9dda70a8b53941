// How a request reads and writes its target's memory: whole, or line by line (Transport::Tear).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "sim/flight.hpp"
#include "sim/transport.hpp"

namespace verbtwin::sim {

namespace {

constexpr std::uint64_t kLineBytes = 64;

}  // namespace

bool Transport::is_torn_read(const Flight& f) const {
  return tear_.within_ps > 0 && f.opcode == Opcode::kRdmaRead &&
         f.remote_addr / kLineBytes != (f.remote_addr + f.length - 1) / kLineBytes;
}

/// Each line of the target's memory is read or written whole, at a time of its own.
void Transport::access_late(const Flight& f, Opcode op, const std::byte* written) {
  Landing& landing = landings_[f.path.to];
  const std::int64_t earliest_ps = op == Opcode::kRdmaWrite ? landing.last_ps : 0;
  for (std::uint64_t at = 0; at < f.length;) {
    const std::uint64_t bytes =
        std::min<std::uint64_t>(f.length - at, kLineBytes - (f.remote_addr + at) % kLineBytes);
    const std::uint32_t index = take_flight();
    Flight& line = flight(index);
    line.stage = Stage::kLine;
    line.opcode = op;
    line.path = f.path;
    line.length = static_cast<std::uint32_t>(bytes);
    line.rkey = f.rkey;
    line.remote_addr = f.remote_addr + at;
    // splitmix64: cheap, and the same everywhere
    std::uint64_t mixed = tear_.seed += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    const auto late_ps =
        static_cast<std::int64_t>((mixed >> 32) % static_cast<std::uint64_t>(tear_.within_ps));
    const std::int64_t at_ps = std::max(earliest_ps, calendar_.now_ps() + late_ps);
    if (op == Opcode::kRdmaWrite) {  // the payload's buffer may be gone by then
      line.local = line.small.data();
      std::memcpy(line.local, written + at, bytes);
      landing.lines.push_back(index);
      landing.last_ps = std::max(landing.last_ps, at_ps);
    } else {
      line.local = f.local + at;
    }
    calendar_.schedule(at_ps, handler_, index);
    at += bytes;
  }
}

void Transport::access_line(std::uint32_t index) {
  const Flight& line = flight(index);
  if (is_write(line.opcode)) std::erase(landings_[line.path.to].lines, index);
  perform(line);
  release(index);
}

void Transport::perform(const Flight& line) {
  Memory& memory = *memories_[line.path.to];
  const bool is_done = line.length == 0;  // it was pushed
  if (is_done || !memory.allows(line.rkey, line.remote_addr, line.length, 0)) return;
  access_whole(line, memory);
  if (is_write(line.opcode)) wake_watcher(line, memory);
}

/// All that the NIC has written is pushed to memory.
void Transport::land(int endpoint) {
  Landing& landing = landings_[static_cast<std::size_t>(endpoint)];
  for (const std::uint32_t index : landing.lines) {
    perform(flight(index));
    flight(index).length = 0;
  }
  landing.lines.clear();
}

std::int64_t Transport::behind_landings_ps(int endpoint, std::int64_t visible_ps) const {
  if (landings_.empty()) return visible_ps;
  return std::max(visible_ps, landings_[static_cast<std::size_t>(endpoint)].last_ps + 1);
}

void Transport::access_memory(Flight& f, Memory& memory) {
  if (f.length == 0) return;
  if (tear_.within_ps == 0) return access_whole(f, memory);
  if (is_write(f.opcode)) return access_late(f, Opcode::kRdmaWrite, f.local);
  land(f.path.to);
  if (is_torn_read(f)) return access_late(f, Opcode::kRdmaRead, nullptr);
  if (f.opcode == Opcode::kRdmaRead) return access_whole(f, memory);
  const std::uint64_t old = memory.word(f.rkey, f.remote_addr);
  access_whole(f, memory);
  const std::uint64_t changed = std::exchange(memory.word(f.rkey, f.remote_addr), old);
  if (changed != old) access_late(f, Opcode::kRdmaWrite, reinterpret_cast<const std::byte*>(&changed));
}

void Transport::access_whole(const Flight& f, Memory& memory) {
  if (is_write(f.opcode)) {
    memory.write(f.rkey, f.remote_addr, f.local, f.length);
  } else if (f.opcode == Opcode::kRdmaRead) {
    memory.read(f.rkey, f.remote_addr, f.local, f.length);
  } else {
    std::atomic_ref<std::uint64_t> word(memory.word(f.rkey, f.remote_addr));
    std::uint64_t old = f.atomic.compare_add;
    if (f.opcode == Opcode::kAtomicFetchAndAdd) {
      old = word.fetch_add(f.atomic.compare_add);
    } else {
      word.compare_exchange_strong(old, f.atomic.swap);
    }
    std::memcpy(f.local, &old, sizeof old);
  }
}

}  // namespace verbtwin::sim
