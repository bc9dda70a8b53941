// ByteWriter and ByteReader: plain values in a row, as ranks of one program on like machines exchange them
// (little-endian, the same compiler's layout; the rendezvous compares versions first).
//
// Values, used by one thread. A reader checks every length against what is there before it takes memory, and
// throws std::runtime_error where a message is shorter than it says.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace verbtwin::ibverbs {

class ByteWriter {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <typename T>
  void put_all(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put<std::uint64_t>(values.size());
    if (!values.empty()) bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  void put_text(std::string_view text) { put_all(std::span<const char>(text)); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, next(sizeof value), sizeof value);
    return value;
  }
  template <typename T>
  std::vector<T> get_all() {
    const auto count = get<std::uint64_t>();
    if (count > bytes_.size() / sizeof(T)) short_message();
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), next(count * sizeof(T)), count * sizeof(T));
    return values;
  }
  std::string get_text() {
    const auto length = get<std::uint64_t>();
    if (length > bytes_.size()) short_message();
    return {next(length), length};
  }

 private:
  [[noreturn]] static void short_message() {
    throw std::runtime_error("a message from another rank is shorter than it says");
  }
  const char* next(std::size_t length) {
    if (length > bytes_.size()) short_message();
    const char* at = bytes_.data();
    bytes_.remove_prefix(length);
    return at;
  }
  std::string_view bytes_;
};

}  // namespace verbtwin::ibverbs
