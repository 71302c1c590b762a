#pragma once
#include <camber/storage/safetensors.h>
#include <camber/train/checkpoint.h>

namespace camber::train {

/// What stands beside the tensors of a checkpoint, as its metadata hold it.
storage::Metadata metadata_of(const CheckpointInfo& info);
CheckpointInfo info_of(const std::filesystem::path& path, const storage::SafetensorsFile& file);

}  // namespace camber::train
