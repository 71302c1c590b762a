#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "camber/config/field.h"

namespace camber::simulation {

/// Invented characters, drawn from random strokes by many hands in several styles: class and domain labels for few-shot
/// learning where no data of others are at hand. Every glyph is a function of (seed, class, hand, domain) alone.
struct GlyphOptions {
  std::int64_t classes = 60;
  std::int64_t hands = 12;
  std::int64_t size = 28;
  double wobble = 0.05;
  std::vector<std::string> domains{"ink", "outline", "inverted", "textured", "noisy"};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("classes", classes, "invented characters", config::Range{.min = 2, .max = 20000});
    visitor("hands", hands, "drawings of each character in each domain, each by another hand",
            config::Range{.min = 2, .max = 10000});
    visitor("size", size, "side of an image", config::Range{.min = 16, .max = 256});
    visitor("wobble", wobble, "how far a hand's strokes stray, as a share of the side",
            config::Range{.min = 0, .max = 0.3});
    visitor("domains", domains, "any of ink, outline, inverted, textured, noisy");
  }
  /// Throws std::invalid_argument for an unknown domain, a repeated one or none.
  void validate() const;
  friend bool operator==(const GlyphOptions&, const GlyphOptions&) = default;
};

/// The domains that glyphs can be drawn in.
///   ink       dark strokes (1) on paper (0)
///   outline   the strokes' edges alone
///   inverted  light strokes on dark ground
///   textured  hatched strokes on a ground of waves
///   noisy     faint ink under grain and specks
std::vector<std::string> glyph_domains();

/// One drawing as size * size numbers in 0..1, row by row.
///
///   const auto image = draw_glyph(options, seed, 7, 3, "outline");
std::vector<float> draw_glyph(const GlyphOptions& options, std::uint64_t seed, std::int64_t class_index,
                              std::int64_t hand, std::string_view domain);

}  // namespace camber::simulation
