#pragma once
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace camber::proof {

/// Whether |actual - expected| <= tolerance * max(1, largest |expected|) everywhere; -inf must meet -inf. The failure
/// names the worst element, its index and the share that fails.
::testing::AssertionResult close(const at::Tensor& actual, const at::Tensor& expected, double tolerance);
/// The same against the largest |expected| alone.
::testing::AssertionResult close_to_largest(const at::Tensor& actual, const at::Tensor& expected, double tolerance);
::testing::AssertionResult same_bits(const at::Tensor& actual, const at::Tensor& expected);

/// The largest |actual - expected| over max(1, largest |expected|): what `close` holds against its tolerance, as a
/// number.
double largest_difference(const at::Tensor& actual, const at::Tensor& expected);

/// A number as a test's RecordProperty takes it, with the digits that a proof reads.
std::string number_text(double value);

/// Compares autograd with central differences of a scalar function in double, element by element (at most about a
/// hundred of a large leaf, evenly spread). Elements that are not finite are left alone and must have gradient 0.
::testing::AssertionResult gradients_match(const std::function<at::Tensor()>& loss,
                                           const std::vector<std::pair<std::string, at::Tensor>>& leaves,
                                           double step = 1e-6, double tolerance = 1e-6);

/// The first line of what an action throws, or "(no error)".
std::string error_of(const std::function<void()>& action);

}  // namespace camber::proof
