#include "camber/health/run_diagnosis.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "camber/json/text.h"
#include "health/json_line.h"

namespace camber::health {
namespace {

bool sampled(const Record& record) {
  return std::any_of(
      record.metrics.begin(), record.metrics.end(),
      [](const Metric& metric) { return metric.name.starts_with("scale/") || metric.name.starts_with("attention/"); });
}

std::string json_of(const Finding& finding) {
  return fmt::format(
      "{{\"severity\": \"{}\", \"step\": {}, \"rule\": {}, \"subject\": {}, \"value\": {}, \"sentence\": {}}}",
      name(finding.severity), finding.step, json::quoted(finding.rule), json::quoted(finding.subject),
      json_number(finding.value), json::quoted(finding.sentence));
}

std::string csv_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char letter : text) quoted.append(letter == '"' ? 2 : 1, letter);
  return quoted += '"';
}

}  // namespace

RunDiagnosis diagnose(const std::vector<Record>& records, const Findings& told, const RuleOptions& options) {
  RunDiagnosis diagnosis{.records = records.size()};
  if (!records.empty()) {
    diagnosis.first_step = records.front().step;
    diagnosis.last_step = records.back().step;
  }
  Rules rules(options);
  Findings findings;
  for (const Record& record : records) {
    diagnosis.samples += sampled(record) ? 1 : 0;
    for (Finding& finding : rules.observe(record.step, record.metrics)) findings.push_back(std::move(finding));
  }
  for (Finding& finding : rules.conclude()) findings.push_back(std::move(finding));
  for (const Finding& finding : told)
    if (finding.rule == "step_skipped" || finding.rule == "stopped") findings.push_back(finding);
  diagnosis.findings = worst_first(findings);
  return diagnosis;
}

RunDiagnosis diagnose_run(const std::filesystem::path& run, const RuleOptions& options) {
  if (!std::filesystem::exists(run / "metrics.jsonl"))
    throw std::invalid_argument(
        fmt::format("[analyze run] RUN must be the folder of a run with metrics.jsonl, got {}", run.string()));
  RunDiagnosis diagnosis = diagnose(read_records(run / "metrics.jsonl"), read_findings(run / "health.jsonl"), options);
  diagnosis.run = run;
  return diagnosis;
}

std::string to_text(const RunDiagnosis& diagnosis) {
  std::string text =
      fmt::format("{}: steps {} to {}, {} records, {} of them with health metrics\n", diagnosis.run.string(),
                  diagnosis.first_step, diagnosis.last_step, diagnosis.records, diagnosis.samples);
  for (const Finding& finding : diagnosis.findings)
    text += fmt::format("{:<8} step {:>7}  {}\n", name(finding.severity), finding.step, finding.sentence);
  if (diagnosis.samples == 0)
    text += "No record holds health metrics, so that most rules could see nothing.\n";
  else if (diagnosis.findings.empty())
    text += "No rule has anything to say: scale, softmax, gradient and trust are within their limits.\n";
  return text;
}

std::string to_json(const RunDiagnosis& diagnosis) {
  std::string findings;
  for (const Finding& finding : diagnosis.findings) findings += (findings.empty() ? "" : ", ") + json_of(finding);
  return fmt::format(
      "{{\"run\": {}, \"first_step\": {}, \"last_step\": {}, \"records\": {}, \"samples\": {}, \"findings\": [{}]}}\n",
      json::quoted(diagnosis.run.string()), diagnosis.first_step, diagnosis.last_step, diagnosis.records,
      diagnosis.samples, findings);
}

std::string to_csv(const RunDiagnosis& diagnosis) {
  std::string text = "severity,step,rule,subject,value,sentence\n";
  for (const Finding& finding : diagnosis.findings)
    text += fmt::format("{},{},{},{},{},{}\n", name(finding.severity), finding.step, finding.rule,
                        csv_text(finding.subject), finding.value, csv_text(finding.sentence));
  return text;
}

}  // namespace camber::health
