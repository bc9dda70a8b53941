// Profile files: NIC, host and socket profiles as JSON, read against the tables of models/profile.hpp and
// models/socket.hpp.
//
// {"format": "verbtwin-nic-profile", "verbtwin-host-profile" or "verbtwin-socket-profile", "version": 1,
//  "name": "connectx-4", "description": "...",
//  "parameters": {"send_wqe_ns": {"value": 7.0, "unit": "ns", "source": "...", "uncertainty": 0.2}, ...}}
// `uncertainty` is relative: 0.2 is plus or minus 20 %. Counts are whole numbers. Every parameter of the
// table must stand in the file, and no other.
//
// Free functions, callable from any thread. Errors are UserErrors of one line, "file:line:column: /pointer:
// ...".
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/profile.hpp"
#include "models/socket.hpp"

namespace verbtwin::calibration {

/// The largest relative uncertainty that a profile may state.
inline constexpr double kUncertaintyMax = 10;
/// In the source of a fitted value about which the data say nothing.
inline constexpr const char* kNotDetermined = "not determined by these, its range is its uncertainty";
/// Likewise what else a fit says of the value that it found.
inline constexpr const char* kLeftWhereItBegan = "the fit left it where it began";
inline constexpr const char* kAtLowerEnd = "at the lower end of its range";
inline constexpr const char* kAtUpperEnd = "at the upper end of its range";

enum class ProfileKind { kNic, kHost, kSocket };
/// "NIC", "host", "socket".
const char* to_string(ProfileKind kind);
/// What "format" says in a profile's file.
const char* format_of(ProfileKind kind);

struct ProfileInfo {
  std::string name;  // what a scenario calls it: the file's name without .json
  ProfileKind kind{};
  std::string description;
  std::string provenance;  // "21 of 52 parameters fitted", "not fitted"
};

/// The directory of the profiles that come with the program: $VERBTWIN_DATA_DIR/profiles where that variable
/// is set, else beside the executable's source tree (build/PRESET/verbtwin) or installation
/// (PREFIX/bin/verbtwin).
std::filesystem::path profile_directory();

/// The same for given places; `data_dir` may be empty.
std::filesystem::path profile_directory(const std::filesystem::path& data_dir,
                                        const std::filesystem::path& executable);

/// A name is looked for in `directory` as NAME.json; what ends in .json is a path.
models::NicProfile load_nic_profile(const std::string& name_or_path,
                                    const std::filesystem::path& directory = profile_directory());
models::HostProfile load_host_profile(const std::string& name_or_path,
                                      const std::filesystem::path& directory = profile_directory());
models::SocketProfile load_socket_profile(const std::string& name_or_path,
                                          const std::filesystem::path& directory = profile_directory());

/// The document of such a profile.
nlohmann::json load_profile(const std::string& name_or_path, ProfileKind kind,
                            const std::filesystem::path& directory = profile_directory());

/// The profile that a document holds in which nothing is wrong.
models::NicProfile nic_profile_of(const nlohmann::json& document);
models::HostProfile host_profile_of(const nlohmann::json& document);

/// The file that a name or a path stands for; throws UserError where there is none of that name.
std::filesystem::path find_profile(const std::string& name_or_path, ProfileKind kind,
                                   const std::filesystem::path& directory = profile_directory());

/// The profiles in a directory by name; their parameters are not looked at.
std::vector<ProfileInfo> list_profiles(const std::filesystem::path& directory);

/// The JSON Schema (draft-07) of a profile file, made from the table of its kind.
nlohmann::json profile_schema(ProfileKind kind);

}  // namespace verbtwin::calibration
