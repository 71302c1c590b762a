#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "camber/detection/detector.h"
#include "camber/weights/load.h"
#include "camber/weights/state_file.h"

/// The weights of CMT as its own program names and stores them (the state_dict of CmtDetector), in and out.
namespace camber::detection {

/// How the weights of sparse convolutions lie: spconv 1 and mmcv's operators [kz, ky, kx, in, out], spconv 2 [out, kz,
/// ky, kx, in].
enum class SpconvLayout { kOne, kTwo };

/// Whose values an import takes from a file that holds both: the running average, or the weights as they were trained.
enum class TakenWeights { kAverage, kPlain };

/// Copies a state_dict into a detector with CMT's encoders and head. Names may stand behind "state_dict.", "module.",
/// "model." or one of the prefixes of a running average ("ema_state_dict.", "ema_model.", "model_ema.", "ema."); of a
/// file with both, `taken` says which. Both layouts of spconv are read, told apart by the shapes. Every name is
/// accounted for in the report: `missing` what the file lacks, `unknown` what the detector does not have, `mismatched`
/// what has another shape; `notes` say what the detector has beyond the original (router, bias; they keep their
/// values), counters of norms that old files lack, and what was passed over. Unless `partial`, a report that is not
/// complete is a std::runtime_error of one sentence and nothing is changed. Throws std::invalid_argument for a detector
/// that is not CMT.
///
///   Detector detector(DetectorOptions::preset("cmt_r50"));
///   const auto report = import_cmt(read_cmt_file("epoch_20.pth"), *detector, "epoch_20.pth");
weights::LoadReport import_cmt(const std::vector<weights::NamedTensor>& state, DetectorImpl& detector,
                               const std::string& file, TakenWeights taken = TakenWeights::kAverage,
                               bool partial = false);

/// The state_dict of the detector under the original's names. Router and bias, which the original does not have, are
/// left out; names_beyond_cmt() lists them.
///
/// mmdetection3d takes a state_dict without the attribute `_metadata` (a plain dict, whatever is read from safetensors)
/// for spconv 1 and permutes it: such a file must be written with SpconvLayout::kOne, or `_metadata` be set before
/// load_state_dict.
std::vector<weights::NamedTensor> export_cmt(const DetectorImpl& detector, SpconvLayout layout);
std::vector<std::string> names_beyond_cmt(const DetectorImpl& detector);

/// The tensors of a file of torch.save (.pth, whatever its name) or of safetensors, without an optimiser's.
std::vector<weights::NamedTensor> read_cmt_file(const std::filesystem::path& file);

/// Writes export_cmt(). FILE.safetensors lies as in spconv 1 unless `layout` says otherwise, FILE.pth as in spconv 2
/// with the _metadata that tells mmdetection3d so: either is what it loads without further ado. Throws
/// std::invalid_argument for another ending, and for a FILE.pth that is to lie as in spconv 1, which its _metadata
/// would have to deny.
void write_cmt_file(const DetectorImpl& detector, const std::filesystem::path& file,
                    std::optional<SpconvLayout> layout = std::nullopt);

}  // namespace camber::detection
