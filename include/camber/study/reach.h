#pragma once

/// What a lean b on a set of keys can do. Keys that hold the share m of a query's attention hold afterwards
///
///   m' = m e^b / (1 - m + m e^b),    and the share moved is  m' - m  <=  tanh(b / 4),
///
/// reached where m = 1 / (1 + e^(b/2)): keys that are out of sight stay so, keys that have everything gain nothing.
///
///   mass_after(0.1, 2.5)    // 0.575...
///   most_moved(2.5)         // 0.554...
namespace camber::study {

/// m' of a share m in (0, 1).
double mass_after(double mass, double lean);
/// The most that a lean moves, whatever it finds: tanh(b / 4).
double most_moved(double lean);
/// The share m that explains what was moved, the smaller of the two; NaN when no share does.
double mass_before(double moved, double lean);

}  // namespace camber::study
