// Every rule has a course that makes it speak and one, a little different, that must not.
#include "camber/health/rules.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "camber/health/guard.h"

namespace camber::health {
namespace {

Metrics scale(double value, double gradient = 0.01) {
  return {{"scale/bias/value", value},
          {"scale/bias/gradient", gradient},
          {"scale/bias/headroom", (5 - value) / 4.5},
          {"scale/bias/min", 0.5},
          {"scale/bias/max", 5},
          {"scale/bias/warn_threshold", 4.2},
          {"scale/bias/init", 2.5},
          {"scale/bias/learnable", 1},
          {"scale/bias/log_space", 0}};
}

Metrics with(Metrics metrics, const Metrics& more) {
  for (const Metric& metric : more) {
    std::erase_if(metrics, [&](const Metric& old) { return old.name == metric.name; });
    metrics.push_back(metric);
  }
  return metrics;
}

using Course = std::function<Metrics(int sample)>;

Findings watch(int samples, const Course& course, RuleOptions options = {}) {
  Rules rules(options);
  Findings said;
  for (int sample = 0; sample < samples; ++sample)
    for (const Finding& finding : rules.observe(std::int64_t{10} * (sample + 1), course(sample)))
      said.push_back(finding);
  for (const Finding& finding : rules.conclude()) said.push_back(finding);
  return said;
}

int count(const Findings& findings, const std::string& rule) {
  int number = 0;
  for (const Finding& finding : findings) number += finding.rule == rule ? 1 : 0;
  return number;
}

TEST(Rules, AboveWarnThreshold) {
  EXPECT_EQ(count(watch(3, [](int) { return scale(4.3); }), "above_warn_threshold"), 1);
  EXPECT_EQ(count(watch(3, [](int) { return scale(4.2); }), "above_warn_threshold"), 0);
  EXPECT_EQ(count(watch(3,
                        [](int) {
                          return with(scale(4.3), {{"scale/bias/learnable", 0}});
                        }),
                  "above_warn_threshold"),
            0);
}

TEST(Rules, NearCap) {
  EXPECT_EQ(count(watch(1, [](int) { return scale(4.05); }), "near_cap"), 1);
  EXPECT_EQ(count(watch(9, [](int) { return scale(3.99); }), "near_cap"), 0);
  const auto sentence_after = [](double first, double second) {
    return watch(2, [&](int sample) { return scale(sample == 0 ? first : second); }).at(0).sentence;
  };
  EXPECT_NE(sentence_after(3.99, 4.05).find("it rose from 3.99 to 4.05 in the last 10 steps"), std::string::npos);
  EXPECT_NE(sentence_after(3.9996, 4.0004).find("it is not rising now"), std::string::npos) << "from 4 to 4";
  const Findings beyond = watch(3, [](int sample) { return scale(5.5 + sample); });
  ASSERT_EQ(count(beyond, "near_cap"), 1);
  EXPECT_NE(beyond[1].sentence.find("runs away"), std::string::npos) << beyond[1].sentence;
  EXPECT_EQ(beyond[1].severity, Severity::kAlarm);
}

TEST(Rules, AtCapForAWholeWindow) {
  EXPECT_EQ(count(watch(4, [](int) { return scale(5); }), "at_cap"), 1);
  EXPECT_EQ(count(watch(40, [](int sample) { return scale(sample % 4 == 3 ? 4.99 : 5); }), "at_cap"), 0);
}

TEST(Rules, SimilarPrototypesTakeThePlaceOfAtCap) {
  const auto course = [](double cosine) {
    return watch(6, [=](int) { return with(scale(5), {{"prototypes/mean_cosine", cosine}}); });
  };
  EXPECT_EQ(count(course(0.93), "similar_prototypes"), 1);
  EXPECT_EQ(count(course(0.93), "at_cap"), 0);
  EXPECT_EQ(count(course(0.3), "similar_prototypes"), 0);
  EXPECT_EQ(count(course(0.3), "at_cap"), 1);
}

TEST(Rules, NoGradient) {
  const auto course = [](double gradient, double trust) {
    return watch(6, [=](int) { return with(scale(2.5, gradient), {{"trust/lidar/mean_abs", trust}}); });
  };
  EXPECT_EQ(count(course(0, 0.4), "no_gradient"), 1);
  EXPECT_EQ(count(course(1e-4, 0.4), "no_gradient"), 0);
  EXPECT_EQ(count(course(0, 0.005), "no_gradient"), 0) << "an untrained router is no illness";
  EXPECT_EQ(count(watch(3, [](int) { return scale(2.5, 0); }), "no_gradient"), 0) << "three samples are no window";
  EXPECT_EQ(count(watch(4, [](int) { return scale(2.5, 0); }), "no_gradient"), 1);
  const Findings at_bound = watch(4, [](int) { return scale(0.5, 0); });
  EXPECT_NE(at_bound.at(0).sentence.find("projected"), std::string::npos);
}

TEST(Rules, CannotReachIsOneNoteAtTheStart) {
  const auto course = [](double high) {
    return watch(200, [=](int) {
      return with(scale(2.5), {{"scale/bias/reach_low", 0.5}, {"scale/bias/reach_high", high}});
    });
  };
  const Findings said = course(2.54);
  ASSERT_EQ(count(said, "cannot_reach"), 1);
  EXPECT_EQ(said[0].severity, Severity::kNote);
  EXPECT_EQ(said[0].step, 10);
  EXPECT_EQ(count(course(5), "cannot_reach"), 0);
}

TEST(Rules, SaturatedSoftmax) {
  const auto course = [](double share, double change) {
    return watch(4, [=](int) {
      return Metrics{
          {"attention/layer1/saturated", share}, {"attention/layer1/dead", 0.2}, {"attention/layer1/change", change}};
    });
  };
  ASSERT_EQ(count(course(0.6, 0.5), "saturated_softmax"), 1);
  EXPECT_NE(course(0.6, 0.5)[0].sentence.find("the bias is the cause"), std::string::npos);
  EXPECT_NE(course(0.6, 0.1)[0].sentence.find("not the bias"), std::string::npos);
  EXPECT_EQ(count(course(0.5, 0.5), "saturated_softmax"), 0);
}

TEST(Rules, RouterSaturated) {
  const auto course = [](double mean, double learned) {
    return watch(1, [=](int) { return Metrics{{"trust/camera/mean", mean}, {"trust/camera/learned", learned}}; });
  };
  EXPECT_EQ(count(course(-0.97, 1), "router_saturated"), 1);
  EXPECT_EQ(count(course(0.94, 1), "router_saturated"), 0);
  EXPECT_EQ(count(course(1, 0), "router_saturated"), 0) << "a constant router is meant to be constant";
}

TEST(Rules, NotFinite) {
  EXPECT_EQ(count(watch(1, [](int) { return Metrics{{"loss/total", std::nan("")}}; }), "not_finite"), 1);
  EXPECT_EQ(count(watch(1, [](int) { return Metrics{{"validation/vel_err", std::nan("")}}; }), "not_finite"), 0);
}

TEST(Rules, NotFiniteIsNotSaidOfAStepThatTheGuardKeptAway) {
  const auto course = [](double first, double second) {
    return watch(2, [=](int sample) {
      return Metrics{{"loss/total", std::nan("")}, {"guard/skipped_steps", sample == 0 ? first : second}};
    });
  };
  EXPECT_EQ(count(course(1, 2), "not_finite"), 0);
  EXPECT_EQ(count(course(0, 1), "not_finite"), 1) << "nothing was skipped at the first";
  EXPECT_EQ(count(course(1, 1), "not_finite"), 1) << "nothing was skipped at the second";
}

double settling(int sample, double from, double to, double noise) {
  return to + (from - to) * std::exp(-sample / 8.) + noise * (sample % 2 == 0 ? 1 : -1);
}

TEST(Rules, ConvergedHighAndLow) {
  const auto course = [](double to, double noise) {
    return watch(100, [=](int sample) { return scale(settling(sample, 2.5, to, noise)); });
  };
  EXPECT_EQ(count(course(3.8, 0.02), "converged_high"), 1);
  EXPECT_EQ(count(course(1.1, 0.02), "converged_low"), 1);
  EXPECT_EQ(count(course(3.8, 0.3), "converged_high"), 0) << "its late spread is as large as its way";
  EXPECT_EQ(count(course(2.9, 0.02), "converged_high") + count(course(2.9, 0.02), "converged_low"), 0);
  const Course wide = [](int sample) { return with(scale(settling(sample, 2.5, 3.8, 0.02)), {{"scale/bias/max", 8}}); };
  EXPECT_EQ(count(watch(100, wide), "converged_high"), 0);
}

TEST(Rules, RepeatThemselvesOnlyAfterAWhile) {
  const Course high = [](int) { return scale(4.5); };
  EXPECT_EQ(count(watch(50, high), "near_cap"), 1);
  EXPECT_EQ(count(watch(51, high), "near_cap"), 2);
  EXPECT_EQ(count(watch(51, high, {.repeat_steps = 100}), "near_cap"), 6);
}

TEST(Rules, SayTheSameTwice) {
  const Course course = [](int sample) {
    return with(scale(2.5 + 0.2 * sample, 0), {{"prototypes/mean_cosine", 0.9}});
  };
  EXPECT_EQ(watch(60, course), watch(60, course));
}

TEST(Findings, StandWorstFirstAndOnce) {
  const Findings sorted = worst_first({{.step = 5, .severity = Severity::kNote, .rule = "a"},
                                       {.step = 1, .severity = Severity::kAlarm, .rule = "b"},
                                       {.step = 2, .severity = Severity::kWarning, .rule = "c"},
                                       {.step = 9, .severity = Severity::kWarning, .rule = "c"},
                                       {.step = 9, .severity = Severity::kWarning, .rule = "c", .subject = "other"}});
  ASSERT_EQ(sorted.size(), 4U);
  EXPECT_EQ(sorted[0].rule, "b");
  EXPECT_EQ(sorted[1].step, 9);
  EXPECT_EQ(sorted[2].step, 9);
  EXPECT_EQ(sorted[3].rule, "a");
}

TEST(Guard, SkipsABrokenStepAndNamesTheTensor) {
  StepGuard guard({.stop_after = 3});
  EXPECT_FALSE(guard.check(1, 0.5, std::nullopt).skip);
  const StepGuard::Verdict verdict =
      guard.check(2, 0.5, BrokenTensor{.name = "gradient of head.weight", .content = "NaN"});
  EXPECT_TRUE(verdict.skip);
  EXPECT_FALSE(verdict.stop);
  EXPECT_NE(verdict.finding->sentence.find("gradient of head.weight holds NaN"), std::string::npos);
  EXPECT_TRUE(guard.check(3, std::nan(""), std::nullopt).skip);
  EXPECT_FALSE(guard.check(4, 0.5, std::nullopt).skip);
  EXPECT_EQ(guard.skipped(), 2);
  EXPECT_EQ(guard.in_a_row(), 0);
}

TEST(Guard, TellsTheInfinitiesApart) {
  for (const auto& [loss, name] : {std::pair(INFINITY, "the loss is Infinity"), {-INFINITY, "the loss is -Infinity"}})
    EXPECT_NE(StepGuard().check(1, loss, std::nullopt).finding->sentence.find(name), std::string::npos);
}

TEST(Guard, StopsAfterEnoughInARowWithTheFirstCause) {
  StepGuard guard({.stop_after = 3});
  guard.check(10, 0.5, BrokenTensor{.name = "loss/heatmap", .content = "NaN"});
  EXPECT_FALSE(guard.check(11, std::nan(""), std::nullopt).stop);
  const StepGuard::Verdict verdict = guard.check(12, std::nan(""), std::nullopt);
  EXPECT_TRUE(verdict.stop);
  EXPECT_EQ(verdict.finding->rule, "stopped");
  EXPECT_NE(verdict.finding->sentence.find("loss/heatmap holds NaN at step 10"), std::string::npos)
      << verdict.finding->sentence;
}

}  // namespace
}  // namespace camber::health
