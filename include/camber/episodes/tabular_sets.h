#pragma once
#include <filesystem>

#include "camber/episodes/example_set.h"

namespace camber::episodes {

/// The UCI Letter table: lines `T,2,8,3,...`, a letter and sixteen whole numbers from 0 to 15, taken to -1..1. A line
/// of another form is a std::runtime_error that names it.
ExampleSet read_letter(const std::filesystem::path& path);

/// Features that another network made: safetensors with `features` F32 [N, D], `labels` I64 [N] and, where there are
/// any, `domains` I64 [N]; names of classes and domains in the metadata `class_names`, `domain_names`, one a line, else
/// the numbers themselves.
ExampleSet read_features(const std::filesystem::path& path);

/// The same file written.
void write_features(const std::filesystem::path& path, const ExampleSet& set);

}  // namespace camber::episodes
