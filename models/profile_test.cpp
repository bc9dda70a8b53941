// The tables of parameters, which files and schemas are made from.
#include "models/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "models/nic.hpp"
#include "models/profiles_for_test.hpp"

namespace verbtwin::models {
namespace {

template <typename Profile>
void expect_sane(std::span<const Parameter<Profile>> parameters) {
  static const std::set<std::string> kUnits = {"ns", "B", "MiB", "count", "Gb/s", "GHz"};
  std::set<std::string> names;
  std::set<const double*> members;
  const Profile profile;
  for (const Parameter<Profile>& parameter : parameters) {
    SCOPED_TRACE(parameter.name);
    EXPECT_TRUE(names.insert(parameter.name).second) << "twice";
    EXPECT_TRUE(members.insert(&(profile.*parameter.value)).second) << "two names for one member";
    EXPECT_TRUE(kUnits.contains(parameter.unit)) << parameter.unit;
    EXPECT_GE(parameter.min, 0);
    EXPECT_LT(parameter.min, parameter.max);
    EXPECT_NE(std::string(parameter.meaning), "");
  }
  EXPECT_EQ(names.size(), (sizeof(Profile) - sizeof(std::string)) / sizeof(double))
      << "a member without a parameter";
}

/// The unit at the end of a name is the unit of its values.
template <typename Profile>
void expect_names_end_in_units(std::span<const Parameter<Profile>> parameters) {
  for (const Parameter<Profile>& parameter : parameters) {
    const std::string name = parameter.name;
    const std::string unit = parameter.unit;
    EXPECT_EQ(name.ends_with("_ns"), unit == "ns") << name;
    EXPECT_EQ(name.ends_with("_b"), unit == "B") << name;
    EXPECT_EQ(name.ends_with("_gbps"), unit == "Gb/s") << name;
    EXPECT_EQ(name.ends_with("_ghz"), unit == "GHz") << name;
  }
}

TEST(Profile, NicParametersAreSane) {
  expect_sane(nic_parameters());
  expect_names_end_in_units(nic_parameters());
}

TEST(Profile, HostParametersAreSane) {
  expect_sane(host_parameters());
  expect_names_end_in_units(host_parameters());
}

TEST(Profile, WhatAModelDividesByOrNeedsOneOfIsNeverZero) {
  for (const auto& parameter : nic_parameters()) {
    const std::string name = parameter.name;
    const bool divisor = name == "link_gbps" || name == "pcie_gbps" || name == "pcie_payload_b" ||
                         name == "pcie_completion_b" || name == "mtu_b" || name == "dma_reads_outstanding" ||
                         name == "atomic_locks" || name == "qp_cache_entries" || name == "max_rd_atomic";
    EXPECT_TRUE(!divisor || parameter.min > 0) << name;
  }
  for (const auto& parameter : host_parameters()) {
    EXPECT_TRUE(parameter.name != std::string("clock_ghz") || parameter.min > 0);
  }
}

TEST(Profile, TheSmallestAndTheLargestMakeANic) {
  for (const bool largest : {false, true}) {
    NicProfile profile;
    for (const auto& parameter : nic_parameters())
      profile.*parameter.value = largest ? parameter.max : parameter.min;
    Nic nic(profile);
    const std::uint32_t context = nic.add_context(64);
    std::int64_t free_ps = 0;
    const Moment fetched = nic.fetch_wqes({0, 0}, 1, 1, false);
    EXPECT_GE(nic.send_request(context, free_ps, fetched, 1, 64).at(), fetched.at());
    EXPECT_GE(nic.atomic_unit().execute({0, 0}, 0x1008, nic.pcie()).old.at(), 0);
  }
}

TEST(Profile, ThoseForTestsAreInRange) {
  const NicProfile nic = round_nic();
  for (const auto& parameter : nic_parameters()) {
    EXPECT_GE(nic.*parameter.value, parameter.min) << parameter.name;
    EXPECT_LE(nic.*parameter.value, parameter.max) << parameter.name;
  }
}

}  // namespace
}  // namespace verbtwin::models
