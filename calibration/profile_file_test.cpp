#include "calibration/profile_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::calibration {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

template <typename Profile>
double middle(const models::Parameter<Profile>& p) {
  const double value = (p.min + p.max) / 2;
  return std::string(p.unit) == "count" ? std::floor(value) : value;
}

template <typename Profile>
json profile_json(const char* format, const char* name, std::span<const models::Parameter<Profile>> table) {
  json parameters;
  for (const auto& p : table) {
    parameters[p.name] = {{"value", middle(p)}, {"unit", p.unit}, {"source", "a test"}, {"uncertainty", 0.2}};
  }
  return {{"format", format},
          {"version", 1},
          {"name", name},
          {"description", "for tests"},
          {"parameters", parameters}};
}

json nic_json() {
  return profile_json("verbtwin-nic-profile", "Test NIC", models::nic_parameters());
}
json host_json() {
  return profile_json("verbtwin-host-profile", "Test host", models::host_parameters());
}

class ProfileFiles : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name) << text;
    return dir_ / name;
  }
  fs::path write(const std::string& name, const json& profile) const { return write(name, profile.dump(1)); }

  template <typename Call>
  static std::string error_of(Call call) {
    try {
      call();
    } catch (const UserError& e) {
      EXPECT_EQ(e.pointer(), "");
      return e.what();
    }
    return "accepted";
  }

  /// The error of a NIC profile without the directory in front of it.
  std::string nic_error(const std::string& text) const {
    const std::string file = write("nic.json", text).string();
    const std::string error = error_of([&] { load_nic_profile(file); });
    return error.starts_with(file) ? error.substr(file.size()) : error;
  }
  std::string nic_error(const json& profile) const { return nic_error(profile.dump()); }

  /// The same without line and column, where the place is not the point.
  std::string nic_message(const json& profile) const {
    const std::string error = nic_error(profile);
    const std::size_t start = error.find(": ");
    return start == std::string::npos ? error : error.substr(start + 2);
  }

  TemporaryDirectory made_;
  const fs::path dir_ = made_.path();
};

TEST_F(ProfileFiles, EveryParameterIsRead) {
  write("n.json", nic_json());
  write("h.json", host_json());
  const models::NicProfile nic = load_nic_profile("n", dir_);
  const models::HostProfile host = load_host_profile((dir_ / "h.json").string());
  EXPECT_EQ(nic.name, "Test NIC");
  EXPECT_EQ(host.name, "Test host");
  for (const auto& p : models::nic_parameters()) EXPECT_EQ(nic.*p.value, middle(p)) << p.name;
  for (const auto& p : models::host_parameters()) EXPECT_EQ(host.*p.value, middle(p)) << p.name;
}

TEST_F(ProfileFiles, ANameThatIsNotThereIsRefusedWithThoseThatAre) {
  fs::create_directories(dir_ / "other");
  write("n.json", nic_json());
  write("h.json", host_json());
  EXPECT_EQ(error_of([&] { load_nic_profile("connectx-4", dir_); }),
            "no NIC profile \"connectx-4\" in " + dir_.string() + "; allowed: n, or a path ending in .json");
  EXPECT_EQ(error_of([&] { load_host_profile("H1", dir_); }),
            "no host profile \"H1\" in " + dir_.string() + "; allowed: h, or a path ending in .json");
  EXPECT_EQ(error_of([&] { load_nic_profile("h", dir_); }),
            "\"h\" is a host profile, not a NIC profile; allowed: n, or a path ending in .json");
  EXPECT_THAT(error_of([&] { load_nic_profile("../n", dir_ / "other"); }),
              testing::HasSubstr("no NIC profile"));
}

TEST_F(ProfileFiles, ListIsSortedAndNamesKinds) {
  write("b-nic.json", nic_json());
  write("a-host.json", host_json());
  write("notes.txt", std::string("not a profile"));
  const std::vector<ProfileInfo> profiles = list_profiles(dir_);
  ASSERT_EQ(profiles.size(), 2U);
  EXPECT_EQ(profiles[0].name, "a-host");
  EXPECT_EQ(profiles[0].kind, ProfileKind::kHost);
  EXPECT_EQ(profiles[1].name, "b-nic");
  EXPECT_EQ(profiles[1].kind, ProfileKind::kNic);
  EXPECT_EQ(profiles[1].description, "for tests");
  write("c.json", std::string("{}"));
  EXPECT_EQ(error_of([&] { list_profiles(dir_); }),
            (dir_ / "c.json").string() +
                ":1:1: /format: no profile; allowed: verbtwin-nic-profile, verbtwin-host-profile, "
                "verbtwin-socket-profile");
  EXPECT_EQ(error_of([&] { list_profiles(dir_ / "none"); }),
            (dir_ / "none").string() + ": cannot be read: No such file or directory");
}

TEST_F(ProfileFiles, ErrorsNameTheirPlace) {
  std::string text = nic_json().dump(2);
  const std::string value = "\"value\": 800.5";  // link_gbps: the middle of 1 to 1600
  text.replace(text.find(value), value.size(), "\"value\": -1");
  const auto before = text.substr(0, text.find("\"value\": -1"));
  const std::string line = std::to_string(1 + std::count(before.begin(), before.end(), '\n'));
  EXPECT_EQ(nic_error(text),
            ":" + line + ":16: /parameters/link_gbps/value: out of range: -1; allowed: number, 1 to 1600");
  EXPECT_EQ(nic_error(std::string("{")),
            ":1:2: syntax error: the text ends too early; allowed: a key in double quotes");
  EXPECT_EQ(nic_error(std::string("[]")), ":1:1: wrong type: array; allowed: object");
  EXPECT_EQ(error_of([] { load_nic_profile("/no/such.json"); }), "/no/such.json: no such file");
}

TEST_F(ProfileFiles, ParametersAreHeldToTheTable) {
  json p = nic_json();
  p["parameters"].erase("mmio_ns");
  EXPECT_EQ(nic_message(p),
            "/parameters: missing key \"mmio_ns\"; allowed: object; in it \"source\" (string of 1 to 10000 "
            "characters), \"uncertainty\" (number, 0 to 10), \"unit\" (ns), \"value\" (number, 0 to 10000)");
  p["parameters"]["mmoi_ns"] = p["parameters"]["dma_read_ns"];
  EXPECT_THAT(nic_message(p), testing::StartsWith("/parameters/mmoi_ns: unknown key \"mmoi_ns\"; allowed: "));
  EXPECT_THAT(nic_message(p), testing::EndsWith("; did you mean \"mmio_ns\"?"));

  p = nic_json();
  p["parameters"]["mtu_b"]["unit"] = "kB";
  EXPECT_EQ(nic_message(p), "/parameters/mtu_b/unit: unknown value \"kB\"; allowed: B");
  p = nic_json();
  p["parameters"]["mtu_b"]["value"] = "4096";
  EXPECT_EQ(nic_message(p),
            "/parameters/mtu_b/value: wrong type: string \"4096\"; allowed: number, 256 to 4096");
  p = nic_json();
  p["parameters"]["mtu_b"]["uncertainty"] = 11;
  EXPECT_EQ(nic_message(p), "/parameters/mtu_b/uncertainty: out of range: 11; allowed: number, 0 to 10");
  p = nic_json();
  p["parameters"]["mtu_b"]["source"] = "";
  EXPECT_EQ(nic_message(p),
            "/parameters/mtu_b/source: too short: \"\"; allowed: string of 1 to 10000 characters");
  p = nic_json();
  p["parameters"]["mtu_b"].erase("uncertainty");
  EXPECT_EQ(nic_message(p), "/parameters/mtu_b: missing key \"uncertainty\"; allowed: number, 0 to 10");
  p = nic_json();
  p["parameters"]["mtu_b"] = 4096;
  EXPECT_EQ(nic_message(p), "/parameters/mtu_b: wrong type: integer 4096; allowed: object");
}

TEST_F(ProfileFiles, CountsAreWholeNumbers) {
  json p = nic_json();
  p["parameters"]["atomic_locks"]["value"] = 4096.5;
  EXPECT_EQ(nic_message(p),
            "/parameters/atomic_locks/value: wrong type: number 4096.5; allowed: integer, 1 to 65536");
  p["parameters"]["atomic_locks"]["value"] = 4096.0;
  EXPECT_EQ(nic_message(p), "accepted");
  p["parameters"]["mmio_ns"]["value"] = 0.5;
  EXPECT_EQ(nic_message(p), "accepted") << "a time need not be one";
}

TEST_F(ProfileFiles, FewBusyCoresAreNotSlowerThanAll) {
  json p = host_json();
  p["parameters"]["turbo_few_ghz"]["value"] = 2.5;
  p["parameters"]["turbo_all_ghz"]["value"] = 2.9;
  const std::string file = write("host.json", p).string();
  const std::string error = error_of([&] { load_host_profile(file); });
  EXPECT_THAT(error, testing::MatchesRegex(".*host.json:[0-9]+:[0-9]+: "
                                           "/parameters/turbo_few_ghz/value: out of range: 2.5; allowed: "
                                           "number, 2.9 \\(turbo_all_ghz\\) to 10"));
  p["parameters"]["turbo_few_ghz"]["value"] = 2.9;
  write("host.json", p);
  EXPECT_EQ(load_host_profile(file).turbo_few_ghz, 2.9) << "a clock that is the same";
}

TEST_F(ProfileFiles, OtherFormatsAndVersionsAreRefused) {
  json p = nic_json();
  p["version"] = 2;
  p["parameters"]["from_the_future"] = 1;
  EXPECT_EQ(nic_message(p), "/version: unknown value 2; allowed: 1");
  EXPECT_EQ(nic_message(host_json()),
            "/format: unknown value \"verbtwin-host-profile\"; allowed: verbtwin-nic-profile; did you mean "
            "\"verbtwin-nic-profile\"?");
  p = nic_json();
  p.erase("format");
  EXPECT_EQ(nic_message(p), "missing key \"format\"; allowed: verbtwin-nic-profile");
}

TEST_F(ProfileFiles, DirectoryIsFoundFromTheProgramOrTheEnvironment) {
  fs::create_directories(dir_ / "tree/calibration/profiles");
  fs::create_directories(dir_ / "usr/share/verbtwin/profiles");
  EXPECT_EQ(profile_directory("", dir_ / "tree/build/release/verbtwin"), dir_ / "tree/calibration/profiles");
  EXPECT_EQ(profile_directory("", dir_ / "usr/bin/verbtwin"), dir_ / "usr/share/verbtwin/profiles");
  EXPECT_EQ(profile_directory(dir_ / "usr/share/verbtwin", "/none"), dir_ / "usr/share/verbtwin/profiles");
  EXPECT_THAT(error_of([&] { profile_directory("", dir_ / "a/b/verbtwin"); }),
              testing::HasSubstr("VERBTWIN_DATA_DIR"));
  EXPECT_EQ(error_of([&] { profile_directory(dir_ / "a", ""); }),
            "VERBTWIN_DATA_DIR: no directory " + (dir_ / "a/profiles").string());
}

TEST(Profiles, ThatComeWithTheProgramAreValid) {
  const fs::path directory = VERBTWIN_SOURCE_DIR "/calibration/profiles";
  for (const ProfileInfo& info : list_profiles(directory)) {
    switch (info.kind) {
      case ProfileKind::kNic:
        EXPECT_NO_THROW(load_nic_profile(info.name, directory)) << info.name;
        break;
      case ProfileKind::kHost:
        EXPECT_NO_THROW(load_host_profile(info.name, directory)) << info.name;
        break;
      case ProfileKind::kSocket:
        EXPECT_NO_THROW(load_socket_profile(info.name, directory)) << info.name;
        break;
    }
  }
}

}  // namespace
}  // namespace verbtwin::calibration
