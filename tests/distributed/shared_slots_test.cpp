// Messages through shared memory, among ranks that are threads: each maps the memory and holds its lock by itself.
#include "distributed/shared_slots.h"

#include <chrono>

#include <gtest/gtest.h>

#include "support/comparison.h"
#include "support/thread_ranks.h"

namespace camber::distributed {
namespace {

using camber::proof::error_of;
using camber::proof::ThreadRanks;

SharedSlots::Exchange by(const ThreadRanks::Group& group) {
  return [group](const std::string& own) { return group->exchange(own); };
}

std::string message_of(std::int64_t rank, std::int64_t round) {
  const auto length = static_cast<std::size_t>((rank * 7919 + round * 104729) % 3000);
  std::string text(length, static_cast<char>('a' + rank));
  return round % 5 == 0 ? std::string() : text + std::to_string(round);
}

std::string text_of(const SharedSlots::Message& message) {
  return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()};
}

TEST(SharedSlots, EveryRankReadsWhatAllSent) {
  for (const std::int64_t ranks : {1, 2, 3, 5})
    ThreadRanks::run(ranks, [ranks](const ThreadRanks::Group& group) {
      SharedSlots slots(group->rank(), ranks, by(group));
      ASSERT_TRUE(slots.joined());
      for (std::int64_t round = 0; round < 400; ++round) {
        const std::string own = message_of(group->rank(), round);
        const auto all = slots.exchange(std::as_bytes(std::span(own)));
        ASSERT_EQ(static_cast<std::int64_t>(all.size()), ranks);
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const std::string expected = message_of(rank, round);
          EXPECT_EQ(all[static_cast<std::size_t>(rank)].length, expected.size());
          EXPECT_EQ(text_of(all[static_cast<std::size_t>(rank)]), expected) << "round " << round << " rank " << rank;
        }
      }
    });
}

TEST(SharedSlots, LongMessagesAreCutAndTheirLengthIsKnown) {
  ThreadRanks::run(2, [](const ThreadRanks::Group& group) {
    SharedSlots slots(group->rank(), 2, by(group));
    const std::string own(SharedSlots::kCapacity + (group->is_first() ? 0 : 17), 'x');
    const auto all = slots.exchange(std::as_bytes(std::span(own)));
    EXPECT_EQ(all[0].length, SharedSlots::kCapacity);
    EXPECT_EQ(all[1].length, SharedSlots::kCapacity + 17);
    EXPECT_EQ(all[1].bytes.size(), SharedSlots::kCapacity);
  });
}

TEST(SharedSlots, ARankThatIsGoneIsAnError) {
  ThreadRanks::run(2, [](const ThreadRanks::Group& group) {
    auto slots = std::make_unique<SharedSlots>(group->rank(), 2, by(group));
    slots->exchange({});
    if (!group->is_first()) return;  // without a word: its lock goes with it
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(error_of([&] { slots->exchange({}); }),
              "[distributed] another process of this run is gone or stuck: rank 1");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  });
}

TEST(SharedSlots, RanksOfTwoMachinesDoNotJoin) {
  ThreadRanks::run(3, [](const ThreadRanks::Group& group) {
    const auto elsewhere = [&group](const std::string& own) {
      return group->exchange(group->rank() == 2 ? "another machine" : own);
    };
    const SharedSlots slots(group->rank(), 3, elsewhere);
    EXPECT_FALSE(slots.joined());
  });
}

}  // namespace
}  // namespace camber::distributed
