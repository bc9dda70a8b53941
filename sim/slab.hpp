// Slab: memory for the many objects of one class, in chunks of a megabyte. A large cluster makes millions of
// queue pairs, aligned to cache lines; from the heap each would cost more time to place than to set up, and a
// line of room beside it.
//
// One per thread and class, made on first use; what is given back is used again, and chunks stay until the
// thread ends. An object goes back to the slab of the thread that deletes it.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace verbtwin::sim {

template <typename T>
class Slab {
 public:
  static void* take() {
    Slab& slab = local();
    if (slab.free_ == nullptr) slab.add_chunk();
    Place* place = slab.free_;
    slab.free_ = place->next;
    return place;
  }
  static void give(void* object) {
    Slab& slab = local();
    slab.free_ = new (object) Place{slab.free_};
  }

  ~Slab() {
    for (std::byte* chunk : chunks_) ::operator delete (chunk, std::align_val_t{alignof(T)});
  }

 private:
  struct Place {
    Place* next;
  };
  static constexpr std::size_t kPlaces = (std::size_t{1} << 20) / sizeof(T);
  static_assert(sizeof(T) >= sizeof(Place));

  static Slab& local() {
    thread_local Slab slab;
    return slab;
  }

  void add_chunk() {
    auto* chunk = static_cast<std::byte*>(::operator new (kPlaces * sizeof(T), std::align_val_t{alignof(T)}));
    chunks_.push_back(chunk);
    for (std::size_t i = kPlaces; i-- > 0;) free_ = new (chunk + i * sizeof(T)) Place{free_};
  }

  Place* free_ = nullptr;
  std::vector<std::byte*> chunks_;
};

}  // namespace verbtwin::sim
