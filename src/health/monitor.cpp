#include "camber/health/monitor.h"

namespace camber::health {

HealthMonitor::HealthMonitor(MonitorOptions options) : options_(options), rules_(options.rules) {}

bool HealthMonitor::due(std::int64_t step) const {
  return options_.interval > 0 && (step == 1 || step % options_.interval == 0);
}

HealthReport HealthMonitor::observe(const HealthSample& sample) {
  HealthReport report{.metrics = health_metrics(sample, options_.per_head)};
  report.findings = rules_.observe(sample.step, report.metrics);
  return report;
}

void HealthMonitor::replay(const std::vector<Record>& records) {
  for (const Record& record : records) rules_.observe(record.step, record.metrics);
}

}  // namespace camber::health
