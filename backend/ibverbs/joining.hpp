// How the ranks of a run find each other, and who is let in: rank 0 gathers, the others join.
//
// Free functions, called by the rendezvous on its thread; they return when every rank is there. What the user
// can mend (address, token, versions, numbers) throws UserError, and so does who does not come within
// options.timeout; a run that is told to stop throws RankFailure.
#pragma once

#include <string>

namespace verbtwin::ibverbs {

class Links;
struct RendezvousOptions;

/// By rank 0. Returns its address that rank 1 has reached it at, in numbers.
std::string gather(const RendezvousOptions& options, Links& links);

/// By every other rank.
void join(const RendezvousOptions& options, Links& links);

}  // namespace verbtwin::ibverbs
