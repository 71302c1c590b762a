"""Speed and memory beside nuscenes-devkit, both in one run on data of the official sizes.

    $(scripts/devkit_venv) bench/nuscenes/compare.py --program build/camber              both comparisons
    $(scripts/devkit_venv) bench/nuscenes/compare.py --program build/camber --only metrics
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Run:
    """A finished process: seconds on the clock, seconds of CPU, peak memory in MB."""

    def __init__(self, command, output=None):
        start = time.monotonic()
        with open(output or os.devnull, 'wb') as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
        self.seconds = time.monotonic() - start
        self.cpu = usage.ru_utime + usage.ru_stime
        self.megabytes = usage.ru_maxrss / 1024
        if status != 0:
            raise SystemExit('failed: ' + ' '.join(map(str, command)))

    def row(self, name):
        return '%-22s %9.2f s %9.2f s CPU %9.0f MB' % (name, self.seconds, self.cpu, self.megabytes)


def best_of(count, command, output=None):
    return min((Run(command, output) for _ in range(count)), key=lambda run: run.seconds)


def compare_metrics(program, folder, repeats):
    subprocess.run([sys.executable, HERE / 'generate.py', 'validation', folder], check=True)
    command = [program, 'metrics', '--results', folder / 'results.json', '--data', folder, '--split', 'val', '--format',
               'json']
    ours = best_of(repeats, command, folder / 'ours.json')
    theirs = Run([sys.executable, HERE / 'devkit_run.py', 'metrics', folder, folder / 'out'])
    a, b = json.loads((folder / 'ours.json').read_text()), json.loads((folder / 'out/metrics_summary.json').read_text())
    same = all(json.dumps(a[key]) == json.dumps(b[key]) for key in ('label_aps', 'label_tp_errors', 'tp_errors', 'mean_ap',
                                                                  'nd_score'))
    print(ours.row('camber metrics'))
    print(theirs.row('nuscenes-devkit'))
    ratio = theirs.seconds / ours.seconds
    print('metrics speed: %.0f times faster than nuscenes-devkit, load to summary (target: 50)' % ratio)
    print('metrics speed in CPU seconds: %.0f times less' % (theirs.cpu / ours.cpu))
    print('metrics memory: %.0f MB (target: below 2000), nuscenes-devkit %.0f MB' % (ours.megabytes, theirs.megabytes))
    print('metrics values at this size: %s to the last bit, NDS %r' % ('equal' if same else 'NOT equal', a['nd_score']))
    return {'camber_seconds': ours.seconds, 'camber_cpu': ours.cpu, 'camber_megabytes': ours.megabytes,
            'devkit_seconds': theirs.seconds, 'devkit_cpu': theirs.cpu, 'devkit_megabytes': theirs.megabytes,
            'speedup': ratio, 'good': ratio >= 50 and ours.megabytes < 2000 and same}


def compare_tables(program, folder, repeats):
    subprocess.run([sys.executable, HERE / 'generate.py', 'trainval', folder], check=True)
    size = sum(file.stat().st_size for file in (folder / 'v1.0-trainval').iterdir()) / 1e9
    command = [program, 'inspect', '--data', folder, '--version', 'v1.0-trainval', '--tables-only', '--format', 'json',
               '--threads', '2']
    ours = best_of(repeats, command, folder / 'ours.json')
    counts = json.loads((folder / 'ours.json').read_text())['tables']
    print(ours.row('camber inspect'), '(%.1f GB of tables)' % size)
    theirs = Run([sys.executable, HERE / 'devkit_run.py', 'tables', folder])
    print(theirs.row('nuscenes-devkit'))
    print('tables: %d samples, %d sample_data rows, %d annotations in %.1f s (target: at most 20) and %.0f MB '
          '(target: at most 3000); nuscenes-devkit %.1f s and %.0f MB' % (
              counts['sample'], counts['sample_data'], counts['sample_annotation'], ours.seconds, ours.megabytes,
              theirs.seconds, theirs.megabytes))
    return {'camber_seconds': ours.seconds, 'camber_cpu': ours.cpu, 'camber_megabytes': ours.megabytes,
            'devkit_seconds': theirs.seconds, 'devkit_cpu': theirs.cpu, 'devkit_megabytes': theirs.megabytes,
            'good': ours.seconds <= 20 and ours.megabytes <= 3000}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--program', default='build/camber')
    parser.add_argument('--only', choices=['metrics', 'tables'])
    parser.add_argument('--repeats', type=int, default=3, help='runs of camber; the fastest counts')
    parser.add_argument('--json', type=Path, help='write the figures there')
    arguments = parser.parse_args()
    figures = {}
    for job, compare in (('metrics', compare_metrics), ('tables', compare_tables)):
        if arguments.only in (None, job):
            with tempfile.TemporaryDirectory() as folder:
                figures[job] = compare(Path(arguments.program).resolve(), Path(folder), arguments.repeats)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + '\n')
    sys.exit(0 if all(entry['good'] for entry in figures.values()) else 1)


if __name__ == '__main__':
    main()
