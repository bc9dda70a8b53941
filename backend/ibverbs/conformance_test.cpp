// The verbs conformance suite on a real device: three contexts of one device, one for each endpoint.
//
// Runs where there is a device (tools/rxe-vm has one); there it must not be skipped.
#include <chrono>
#include <memory>
#include <thread>

#include "backend/conformance/suite.hpp"
#include "backend/ibverbs/device.hpp"

namespace verbtwin::conformance {
namespace {

using Clock = std::chrono::steady_clock;

class IbverbsBinding final : public ConformanceBinding {
 public:
  Device& device(int endpoint) override { return devices_[static_cast<std::size_t>(endpoint)]; }

  bool run_until(const std::function<bool()>& done) override {
    const Clock::time_point limit = Clock::now() + kLimit;
    while (!done()) {
      if (Clock::now() >= limit) return false;
      std::this_thread::yield();
    }
    return true;
  }

  /// Ten times the longest time-out that the suite leaves unset (timeout 14: 67 ms) would be safe and slow;
  /// on one machine nothing is lost, so what is under way ends in a fraction of one.
  void settle() override { std::this_thread::sleep_for(std::chrono::milliseconds(40)); }

  Deviations deviations() override {
    constexpr std::uint32_t kSoftRoceVendor = 0xFFFFFF;
    const bool soft = devices_[0].context().device_attributes().vendor_id == kSoftRoceVendor;
    return {!soft, !soft, !soft, !soft};
  }

 private:
  static constexpr std::chrono::seconds kLimit{20};
  std::array<ibverbs::IbvDevice, kEndpoints> devices_{ibverbs::IbvDevice({}), ibverbs::IbvDevice({}),
                                                      ibverbs::IbvDevice({})};
};

INSTANTIATE_TEST_SUITE_P(Ibverbs, VerbsConformance,
                         testing::Values(BindingCase{"device",
                                                     [] { return std::make_unique<IbverbsBinding>(); }}),
                         case_name);

}  // namespace
}  // namespace verbtwin::conformance
