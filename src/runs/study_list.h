#pragma once
#include <functional>
#include <string>
#include <vector>

#include <camber/runs/study.h>

namespace camber::runs {

/// The study's data set, made where it is absent.
bool has_world(const StudyOptions& options);
void make_world(const StudyRequest& request);

/// Says how the gates stand by the records there are; false when one fails.
bool gates_hold(const study::StudyPlan& plan, const StudyFolder& folder,
                const std::function<void(const std::string&)>& say);

/// One run as a process of its own. It is told the choice too: the gates stand on the bases of the seeds that were
/// chosen.
study::QueueTask queue_task(const StudyRequest& request, const std::string& name);

/// Every run of the choice with what it needs, by the folder as it is.
std::vector<ListedRun> listed_runs(const StudyRequest& request);

}  // namespace camber::runs
