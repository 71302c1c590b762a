#include "runs/study_list.h"

#include <algorithm>
#include <stdexcept>

#include <camber/simulation/simulate.h>
#include <camber/study/analysis.h>
#include <camber/study/queue.h>

namespace camber::runs {
namespace {

namespace fs = std::filesystem;

void check_gates(const study::StudyPlan& plan, const StudyFolder& folder,
                 const std::function<void(const std::string&)>& say) {
  if (!gates_hold(plan, folder, say))
    throw std::runtime_error(
        "[study] a gate fails: improve the world or the recipe, or set gates.stop = false to go on");
}

bool is_listed_done(const StudyRequest& request, const std::string& name) {
  const StudyOptions& options = request.options;
  const StudyFolder folder{request.out};
  if (name == kWorld) return has_world(options);
  if (name != kGates) return is_done(options, folder, StudyRun::parse(name));
  const std::vector<StudyRun> bases = base_runs(options.plan, request.choice);
  return std::all_of(bases.begin(), bases.end(),
                     [&](const StudyRun& base) { return is_done(options, folder, base); }) &&
         gates_hold(options.plan, folder, {});
}

void make_one_world(const StudyRequest& request, const study::StudyWorld& world) {
  const std::string& version = request.options.training.data.version;
  if (request.say) request.say("simulating " + std::to_string(world.scenes) + " scenes into " + world.root);
  simulation::SimulationOptions options{.scenes = world.scenes, .version = version};
  options.world.frames = world.frames;
  simulation::simulate(options, world.seed, request.simulation_threads, world.root);
}

}  // namespace

bool has_world(const StudyOptions& options) {
  const auto there = [&](const std::string& root) {
    return root.empty() || fs::exists(fs::path(root) / options.training.data.version);
  };
  return there(options.plan.world.root) && there(options.plan.test_world.root);
}

void make_world(const StudyRequest& request) {
  const std::string& version = request.options.training.data.version;
  for (const study::StudyWorld& world : {request.options.plan.world, request.options.plan.test_world})
    if (!world.root.empty() && !fs::exists(fs::path(world.root) / version)) make_one_world(request, world);
}

bool gates_hold(const study::StudyPlan& plan, const StudyFolder& folder,
                const std::function<void(const std::string&)>& say) {
  const std::vector<study::Gate> gates = study::base_gates(plan, study::read_run_records(folder.records()));
  for (const study::Gate& gate : gates)
    if (say) say(gate.text());
  return std::all_of(gates.begin(), gates.end(),
                     [](const study::Gate& gate) { return gate.state != study::GateState::kFails; });
}

study::QueueTask queue_task(const StudyRequest& request, const std::string& name) {
  study::QueueTask task = task_of(StudyFolder{request.out}, {"study", "run"}, name);
  if (request.choice.seeds > 0)
    task.command.insert(task.command.end(), {"--seeds", std::to_string(request.choice.seeds)});
  std::string only;
  for (const std::string& arm : request.choice.only) only += (only.empty() ? "" : ",") + arm;
  if (!only.empty()) task.command.insert(task.command.end(), {"--only", only});
  return task;
}

std::vector<ListedRun> listed_runs(const StudyRequest& request) {
  const StudyOptions& options = request.options;
  std::vector<ListedRun> listed;
  const auto add = [&](const std::string& name, std::vector<std::string> needs) {
    listed.push_back({.name = name,
                      .needs = std::move(needs),
                      .command = queue_task(request, name).command,
                      .done = is_listed_done(request, name)});
  };
  add(kWorld, {});
  std::vector<std::string> bases;
  for (const StudyRun& run : base_runs(options.plan, request.choice)) {
    add(run.key(), {kWorld});
    bases.push_back(run.key());
  }
  const bool gated = options.plan.gates.stop && !bases.empty();
  if (gated) add(kGates, bases);
  for (const StudyRun& run : arm_runs(options.plan, request.choice)) {
    std::vector<std::string> needs{gated ? kGates : kWorld};
    if (!gated && training_of(options, run).branches) needs.push_back(StudyRun{kBase, run.seed}.key());
    add(run.key(), needs);
  }
  return listed;
}

void run_named(const StudyRequest& request, const std::string& name, const RunListener& listener) {
  const StudyFolder folder{request.out};
  const std::vector<ListedRun> runs = listed_runs(request);
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const ListedRun& run) { return run.name == name; });
  if (found == runs.end())
    throw std::invalid_argument("[study] a run must be one of those that camber study list names, got '" + name + "'");
  for (const ListedRun& run : runs)
    if (!run.done && std::find(found->needs.begin(), found->needs.end(), run.name) != found->needs.end())
      throw std::runtime_error("[study] " + name + " needs " + run.name + ", which is not done");
  do_once(
      folder, name, [&] { return is_listed_done(request, name); },
      [&] {
        if (name == kWorld)
          make_world(request);
        else if (name == kGates)
          check_gates(request.options.plan, folder, listener.say);
        else
          execute_run(request.options, folder, StudyRun::parse(name), listener);
      });
}

}  // namespace camber::runs
