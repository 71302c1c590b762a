// A checkpoint of CMT with weights by recipe instead of training: cmt_recipe_weights RULES.json MODEL SEED OUT.pth
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "camber/detection/cmt_weights.h"
#include "camber/weights/checksums.h"
#include "camber/weights/torch_file.h"
#include "cmt/recipe.h"

int main(int count, char** arguments) {
  using namespace camber;
  if (count != 5) {
    std::fputs("usage: cmt_recipe_weights RULES.json MODEL SEED OUT.pth\n", stderr);
    return 2;
  }
  try {
    const detection::Detector detector(detection::DetectorOptions::preset(arguments[2]));
    const auto made =
        cmt_tests::recipe_weights(detection::export_cmt(*detector, detection::SpconvLayout::kTwo),
                                  cmt_tests::read_rules(arguments[1]), std::strtoull(arguments[3], nullptr, 10));
    for (const char* name : {"pts_bbox_head.reference_points.weight", "pts_bbox_head.bev_embedding.0.weight",
                             "pts_middle_encoder.conv_input.0.weight", "img_backbone.conv1.weight"})
      for (const auto& entry : made)
        if (entry.name == name)
          std::printf("%s %s\n", name,
                      weights::checksum_text(weights::checksum(weights::view_of(entry).bytes)).c_str());
    weights::write_torch_file(arguments[4], made, {}, {{"made_by", "cmt_recipe_weights"}});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cmt_recipe_weights: %s\n", error.what());
    return 1;
  }
  return 0;
}
