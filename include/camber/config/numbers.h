#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace camber::config {

/// The number that the whole text stands for, independent of the locale; nothing when it is not one.
/// Reads what a person writes: `2`, `-.6`, `+1e-3`, `inf`, `nan`.
std::optional<double> read_number(std::string_view text);

/// The same for whole numbers; `1.0`, `1e3` and what does not fit into 64 bits are none.
std::optional<std::int64_t> read_integer(std::string_view text);
std::optional<std::uint64_t> read_unsigned(std::string_view text);

/// The shortest text that reads back to the same bits, and that TOML takes for a float: `2.0`, `0.1`, `1e-05`, `inf`.
std::string write_number(double value);

}  // namespace camber::config
