#pragma once
#include "simulation/solids.h"

namespace camber::simulation {

/// What a camera sees of a surface point: how much light it throws back and how much it gives off by itself.
struct Look {
  Color albedo{};
  float emission = 0;
};

/// What the LiDAR meets: the share of returns that are lost there and the strength of the rest, 0 to 1.
struct Material {
  float reflectivity = 0;
  float drop_out = 0;
};

/// `point` and `normal` in the actor's frame.
Look look_at(const Scene& scene, const Actor& actor, int part, Vector point, Vector normal);
Material material_at(const Actor& actor, int part, Vector point, float ordinary_drop_out);

/// The ground, `along` and `across` the road that the car starts on; one ray covers `footprint` metres there.
Color ground_color(const Scene& scene, float along, float across, float footprint);

/// Sky and skyline in a direction of the world.
Color sky_color(const Scene& scene, Vector direction);

}  // namespace camber::simulation
