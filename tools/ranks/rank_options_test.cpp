#include "tools/ranks/rank_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "backend/user_error.hpp"

namespace verbtwin::tools {
namespace {

using testing::HasSubstr;

class RankOptionsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
                             "SLURM_PROCID", "SLURM_NTASKS"}) {
      unsetenv(name);
    }
    setenv(kTokenVariable, "0123456789abcdef", 1);
    flags_.rank = 1;
    flags_.ranks = 3;
    flags_.rendezvous = "node7:7471";
  }
  void TearDown() override { unsetenv(kTokenVariable); }

  std::string refusal(int nodes = 3) const {
    try {
      complete_rank(flags_, nodes);
      return "accepted";
    } catch (const UserError& error) {
      return error.what();
    }
  }

  RankFlags flags_;
};

TEST_F(RankOptionsTest, FlagsAreTaken) {
  const RankOptions options = complete_rank(flags_, 3);
  EXPECT_EQ(options.rank, 1);
  EXPECT_EQ(options.ranks, 3);
  EXPECT_EQ(options.host, "node7");
  EXPECT_EQ(options.tcp_port, 7471);
  EXPECT_EQ(options.token, "0123456789abcdef");
  flags_.rendezvous = "[fe80::1]:7471";
  EXPECT_EQ(complete_rank(flags_, 3).host, "fe80::1");
}

TEST_F(RankOptionsTest, LaunchersAreAsked) {
  flags_.rank.reset();
  flags_.ranks.reset();
  setenv("SLURM_PROCID", "2", 1);
  setenv("SLURM_NTASKS", "3", 1);
  EXPECT_EQ(complete_rank(flags_, 3).rank, 2);
  setenv("PMI_RANK", "1", 1);
  setenv("PMI_SIZE", "3", 1);
  EXPECT_EQ(complete_rank(flags_, 3).rank, 1) << "mpiexec inside a Slurm job";
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
  EXPECT_EQ(complete_rank(flags_, 3).rank, 0) << "mpirun inside a Slurm job";
  setenv("OMPI_COMM_WORLD_RANK", "zero", 1);
  EXPECT_EQ(refusal(), "OMPI_COMM_WORLD_RANK=\"zero\": not a number");
}

TEST_F(RankOptionsTest, WhatCannotBeIsRefused) {
  EXPECT_THAT(refusal(4), HasSubstr("--ranks 3: the scenario has 4 nodes"));
  EXPECT_EQ(allowed_ranks(4, 4096), "4, or --set cluster.nodes=4096");
  EXPECT_EQ(allowed_ranks(4, 4097), "4") << "no scenario has as many";
  flags_.rank = 3;
  EXPECT_EQ(refusal(), "--rank 3: out of range; allowed: 0 to 2");
  flags_.rank = -1;
  EXPECT_EQ(refusal(), "--rank -1: out of range; allowed: 0 to 2");
  flags_.rank = 1;
  for (const char* place : {"node7", "node7:", "node7:0", "node7:65536", ":7471", "node7:x"}) {
    flags_.rendezvous = place;
    EXPECT_THAT(refusal(), HasSubstr("allowed: HOST:PORT")) << place;
  }
  flags_.rendezvous = "";
  EXPECT_THAT(refusal(), HasSubstr("--rendezvous is missing"));
  flags_.rendezvous = "node7:7471";
  setenv(kTokenVariable, "short", 1);
  EXPECT_THAT(refusal(), HasSubstr("of the wrong length"));
  unsetenv(kTokenVariable);
  EXPECT_THAT(refusal(), HasSubstr("missing"));
  EXPECT_THAT(refusal(), HasSubstr("`mpirun -x VERBTWIN_TOKEN`"));
}

TEST_F(RankOptionsTest, OneRankNeedsNeitherPlaceNorToken) {
  RankFlags alone;
  alone.rank = 0;
  alone.ranks = 1;
  unsetenv(kTokenVariable);
  EXPECT_EQ(complete_rank(alone, 1).ranks, 1);
}

TEST_F(RankOptionsTest, DriversAreToldByTheEnvironment) {
  const auto before = driver_environment();
  const std::string hostile = "it's `id` $(id)\n\xff";
  setenv("MLX5_SINGLE_THREADED", hostile.c_str(), 1);
  setenv("IBV_FORK_SAFE", "", 1);
  setenv("MLX5_$(id)", "no word", 1);
  setenv("XMLX5_Y", "another's", 1);
  auto expected = before;
  expected["MLX5_SINGLE_THREADED"] = hostile;
  expected["IBV_FORK_SAFE"] = "";
  EXPECT_EQ(driver_environment(), expected);
  for (const char* name : {"MLX5_SINGLE_THREADED", "IBV_FORK_SAFE", "MLX5_$(id)", "XMLX5_Y"}) unsetenv(name);
}

TEST_F(RankOptionsTest, ADeviceMayBeNamedWithItsPort) {
  using Ports = std::vector<NamedPort>;
  EXPECT_EQ(complete_rank(flags_, 3).ports, (Ports{{"", 0}}));
  flags_.port = 2;
  EXPECT_EQ(complete_rank(flags_, 3).ports, (Ports{{"", 2}}));
  flags_.devices = "mlx4_0:1,mlx5_0";
  EXPECT_EQ(complete_rank(flags_, 3).ports, (Ports{{"mlx4_0", 1}, {"mlx5_0", 2}}));
  flags_.devices = "mlx4_0:1,mlx4_0:2";
  EXPECT_EQ(complete_rank(flags_, 3).ports, (Ports{{"mlx4_0", 1}, {"mlx4_0", 2}}));
}

TEST_F(RankOptionsTest, TheDeviceIsSaidToOthersAsItWasSaidHere) {
  EXPECT_THAT(device_arguments(flags_), testing::IsEmpty());
  flags_.devices = "mlx5_0";
  flags_.port = 1;
  flags_.gid_index = 0;
  flags_.sl = 3;
  flags_.traffic_class = 106;
  EXPECT_THAT(device_arguments(flags_),
              testing::ElementsAre("--device", "mlx5_0", "--port", "1", "--gid-index", "0", "--sl", "3",
                                   "--traffic-class", "106"));
  const RankOptions options = complete_rank(flags_, 3);
  EXPECT_EQ(options.sl, 3);
  EXPECT_EQ(options.traffic_class, 106);
}

}  // namespace
}  // namespace verbtwin::tools
