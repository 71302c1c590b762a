#pragma once
#include "camber/simulation/scene.h"

namespace camber::simulation {

/// Solids stay this far off the label box's faces, in metres.
constexpr double kBoxMargin = 0.05;

/// Draws size, solids, colours and reflectivity of an actor; its path is the caller's.
Actor make_actor(ActorKind kind, const WorldOptions& options, const GroundLook& ground, const random::Stream& stream);

/// A colour of the palette that every class shares.
Color draw_color(random::Stream& stream);

}  // namespace camber::simulation
