#!/usr/bin/env python3
"""Puts bench/results/*.json into tables: on standard output, or with --write into docs/performance.md.

In the document each table stands between `<!-- name -->` and `<!-- end -->` and is replaced whole, so that no value there
was ever typed.
"""

import argparse
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
DOCUMENT = ROOT / "docs" / "performance.md"
MISSING = "not measured"


def load(name):
    file = RESULTS / name
    return json.loads(file.read_text()) if file.exists() else None


def load_lines(name):
    file = RESULTS / name
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else None


def number(value, decimals=1):
    return "-" if value is None else f"{value:,.{decimals}f}"


def table(head, rows):
    rule = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join(["| " + " | ".join(head) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows)])


def description(answer):
    problem, peak, torch = answer["problem"], answer["peak"], answer["torch"]
    names = zip("BHDQK", ("batch", "heads", "width", "queries", "keys"))
    sizes = ", ".join(f"{letter}={problem[name]:,}" for letter, name in names)
    text = f"{answer['processor']}, {answer['threads']} threads, torch {torch['version']} ({torch['capability']}); {sizes}; "
    text += f"best of {problem['repeats']}, in turns; {answer['implementation']}.\n"
    text += (
        f"Peak of multiply-adds {peak['fma_gflops']:.1f} GFLOP/s ({peak['instructions']}), of bfloat16 dot products "
    )
    text += f"{peak['bf16_gflops']:.1f}.\n"
    if answer["environment"]:
        text += (
            "Environment: " + ", ".join(f"`{name}={value}`" for name, value in answer["environment"].items()) + ".\n"
        )
    return text


def row_cells(row):
    return [
        f"`{row['name']}`",
        row["pass"],
        number(row["milliseconds"]),
        number(row["gflops"]),
        number(100 * row["share_of_peak"]),
        number(row["extra_megabytes"]),
        number(row["speedup"], 2),
    ]


HEAD = ["", "pass", "ms", "GFLOP/s", "% of peak", "extra MB", "Camber is x times faster"]


def attention(answer):
    return description(answer) + "\n" + table(HEAD, [row_cells(row) for row in answer["rows"]])


def peers(answer):
    versions = ", ".join(f"{name} {version}" for name, version in answer["versions"].items())
    text = f"{answer['threads']} threads; {versions}; best of {answer['problem']['repeats']}, in turns.\n\n"
    text += table(HEAD, [row_cells(row) for row in answer["rows"]])
    return text + "".join(f"\n\n`{name}`: {MISSING}." for name in answer["missing"])


def kernels(rows):
    """The kernels on their own; the cost is over the row of the same pass without a bias."""
    plain = {row["name"].split(",")[0]: row["milliseconds"] for row in rows if row["name"].endswith("no bias")}
    lines = []
    for row in rows:
        cost = 100 * (row["milliseconds"] / plain[row["name"].split(",")[0]] - 1)
        cells = [row["milliseconds"], row["gflops"], 100 * row["share_of_peak"], cost, row["extra_megabytes"]]
        lines.append([row["name"], *(number(cell) for cell in cells)])
    head = ["", "ms", "GFLOP/s", "% of peak", "% over no bias", "extra MB"]
    return f"{rows[0]['isa']}, {rows[0]['threads']} thread.\n\n" + table(head, lines)


def scaling(answer):
    """One table an axis: a line a value, milliseconds of ours and, behind a slash, how many times faster than torch's."""
    text = []
    for axis in dict.fromkeys(row["axis"] for row in answer["scaling"]):
        rows = [row for row in answer["scaling"] if row["axis"] == axis]
        lines = []
        for value in dict.fromkeys(row["value"] for row in rows):
            of = {(row["name"], row["pass"]): row for row in rows if row["value"] == value}
            cells = [f"{value:,}"]
            for way in ("forward", "forward+backward"):
                ours = of["camber/windows", way]
                cells += [number(ours["milliseconds"]), number(100 * ours["share_of_peak"])]
                cells += [number(of[peer, way]["speedup"], 2) for peer in ("sdpa/no_bias", "sdpa/dense_bias")]
            lines.append(cells)
        head = [axis] + [
            f"{way} {what}"
            for way in ("forward", "both")
            for what in ("ms", "% of peak", "x SDPA without bias", "x SDPA with dense bias")
        ]
        text.append(table(head, lines))
    return "\n\n".join(text)


class Measurements:
    """The values of one run, by row; None where a row is missing."""

    def __init__(self, answer):
        self.rows = {(row["name"], row["pass"]): row for row in answer["rows"]} if answer else {}

    def of(self, field, name, way="forward"):
        row = self.rows.get((name, way))
        return row[field] if row else None

    def ratio(self, field, name, other, way="forward", least=0.0):
        """a / b; where b is too small to be told from nothing, `least` stands for it."""
        a, b = self.of(field, name, way), self.of(field, other, way)
        return a / max(b, least) if a is not None and b is not None and max(b, least) > 0 else None


class Runs:
    """The three runs that the promises are read from."""

    def __init__(self, attention_answer, avx2_answer, peers_answer):
        self.run, self.avx2, self.peers = (
            Measurements(attention_answer),
            Measurements(avx2_answer),
            Measurements(peers_answer),
        )


def scaled(value, factor=100.0, shift=0.0):
    return None if value is None else factor * (value + shift)


BOTH = "forward+backward"
# fmt: off
# What was promised: the value, its bound, its aim, its unit, and how it is read from the runs.
PROMISES = [
    ("forward, share of the FMA peak", ">= 77", "84", "%",
     lambda r: scaled(r.run.of("share_of_peak", "camber/windows"))),
    ("forward, against SDPA without a bias", ">= 1.3", "1.45", "x",
     lambda r: r.run.of("speedup", "sdpa/no_bias")),
    ("forward, against SDPA with the dense bias at hand", ">= 1.55", "1.75", "x",
     lambda r: r.run.of("speedup", "sdpa/dense_bias")),
    ("forward, against ONNX Runtime with a dense bias", ">= 1.35", "1.5", "x",
     lambda r: r.peers.of("speedup", "onnx_runtime/dense_bias")),
    ("forward, nn.MultiheadAttention against our operator alone", ">= 6", "7", "x",
     lambda r: r.run.ratio("milliseconds", "torch/multihead_attention", "camber/windows")),
    ("forward, nn.MultiheadAttention against the same layer with ours", "", "", "x",
     lambda r: r.run.of("speedup", "torch/multihead_attention")),
    ("backward, share of the FMA peak", ">= 82", "88", "%",
     lambda r: scaled(r.run.of("share_of_peak", "camber/windows", "backward"))),
    ("both, against SDPA with a bias that learns", ">= 5.2", "6", "x",
     lambda r: r.run.of("speedup", "sdpa/dense_bias_with_gradient", BOTH)),
    ("both, against SDPA without a bias (which does less)", ">= 1.5", "1.65", "x",
     lambda r: r.run.of("speedup", "sdpa/no_bias", BOTH)),
    ("both, float mask with gradient, against SDPA", ">= 3.5", "4.5", "x",
     lambda r: r.run.of("speedup", "sdpa/float_mask_with_gradient", BOTH)),
    ("extra memory, forward", "<= 16", "", "MB", lambda r: r.run.of("extra_megabytes", "camber/windows")),
    ("extra memory, both", "<= 64", "", "MB", lambda r: r.run.of("extra_megabytes", "camber/windows", BOTH)),
    ("cost of the windows, forward", "<= 3", "", "%",
     lambda r: scaled(r.run.ratio("milliseconds", "camber/windows", "camber/no_bias"), shift=-1)),
    ("cost of the statistics, forward", "<= 5", "3", "%",
     lambda r: scaled(r.run.of("speedup", "camber/statistics"), shift=-1)),
    ("bfloat16 forward, against our float32", ">= 1.45", "1.7", "x",
     lambda r: r.run.ratio("milliseconds", "camber/windows", "camber/bfloat16")),
    ("bfloat16 forward, against SDPA's bfloat16", ">= 2", "2.4", "x",
     lambda r: r.run.of("speedup", "sdpa/bfloat16")),
    ("AVX2 forward, against SDPA held to AVX2", ">= 1.2", "1.4", "x",
     lambda r: r.avx2.of("speedup", "sdpa/no_bias")),
    ("cameras absent: time, over the share of keys left", "<= 1.1", "", "",
     lambda r: scaled(r.run.ratio("milliseconds", "camber/cameras_absent", "camber/windows"), 22384 / 16384)),
    ("local attention, forward, against the same by a mask", ">= 20", "", "x",
     lambda r: r.run.of("speedup", "sdpa/local_as_mask")),
    ("local attention, both, against the same by a mask", ">= 20", "", "x",
     lambda r: r.run.of("speedup", "sdpa/local_as_mask", BOTH)),
    ("local attention, forward, memory of the mask over ours", ">= 50", "", "x",
     lambda r: r.run.ratio("extra_megabytes", "sdpa/local_as_mask", "camber/local", least=0.1)),
]
# fmt: on


def is_met(bound, measured):
    if not bound:
        return ""
    limit = float(bound.split()[1])
    return "yes" if (measured >= limit if bound.startswith(">=") else measured <= limit) else "**no**"


def targets(runs):
    lines = []
    for what, bound, aim, unit, measure in PROMISES:
        measured = measure(runs)
        shown = MISSING if measured is None else f"{measured:.2f} {unit}".strip()
        lines.append([what, bound, aim, shown, "" if measured is None else is_met(bound, measured)])
    return table(["value", "bound", "aim", "measured", "met"], lines)


def sparse_encoder(answer):
    clock = {"wall": "wall time", "processor": "processor time divided by the threads"}[answer["clock"]]
    peak = f"peak of multiply-adds {answer['peak']:.1f} GFLOP/s"
    text = f"Threads: {answer['threads']}; {clock}, best of {answer['repeats']}, in turns; {peak}.\n\n"
    head = ["", "cloud", "voxels", "pass", "ms", "GFLOP/s", "% of peak", "Camber is x times faster", "differs by"]
    cells = [
        [
            f"`{row['name']}`",
            row["cloud"],
            number(row["voxels"], 0),
            row["pass"],
            number(row["milliseconds"]),
            number(row["gflops"]),
            number(100 * row["share_of_peak"]),
            number(row["speedup"], 2),
            f"{row['difference']:.0e}",
        ]
        for row in answer["rows"]
    ]
    return text + table(head, cells)


def cmt_frames(answer):
    clock = {"wall": "wall time", "processor": "processor time divided by the threads"}[answer["clock"]]
    text = f"Threads: {answer['threads']}; {clock}, best of {answer['repeats']}, in turns.\n\n"
    head = [
        "",
        "cloud",
        "ms",
        "times faster than `torch`",
        "MB above the weights",
        "best 100 moved, m",
        "logits differ by",
    ]
    cells = [
        [
            f"`{row['name']}`",
            row["cloud"],
            number(row["milliseconds"], 0),
            number(row["speedup"], 2),
            number(row["memory"], 0),
            number(row["moved"], 3),
            f"{row['logits']:.0e}",
        ]
        for row in answer["rows"]
    ]
    stages = [
        [f"`{row['name']}`", ", ".join(f"{stage} {number(value, 0)}" for stage, value in row["stages"].items())]
        for row in answer["rows"]
        if row["cloud"] == "key frame"
    ]
    return text + table(head, cells) + "\n\n" + table(["", "stages on the key frame, ms"], stages)


def grid(answer):
    """One table a type, bias and pass: keys across, batch and queries down, how many times faster ours is."""
    torch, problem = answer["torch"], answer["problem"]
    text = (
        f"{answer['processor']}, threads: {answer['threads']}, torch {torch['version']} ({torch['capability']}); "
        f"H={problem['heads']}, D={problem['width']}; {problem['clock']} time, best of {problem['seconds']} s in turns.\n"
        f"{len(answer['rows'])} cells, geometric mean {answer['geometric_mean']:.2f}, below 0.97: {answer['below_0.97']}.\n"
    )
    worst = sorted(answer["rows"], key=lambda row: row["speedup"])[:5]
    cell = "{speedup:.2f} ({bias}, {pass}, {type}, B={batch}, Q={queries}, K={keys})"
    text += "The five worst: " + "; ".join(cell.format(**row) for row in worst) + ".\n"
    groups = {}
    for row in answer["rows"]:
        groups.setdefault((row["type"], row["bias"], row["pass"]), []).append(row)
    for (kind, bias, step), rows in groups.items():
        keys = sorted({row["keys"] for row in rows})
        sides = sorted({(row["batch"], row["queries"]) for row in rows})
        found = {(row["batch"], row["queries"], row["keys"]): row["speedup"] for row in rows}
        cells = [[f"B={b} Q={q}", *(number(found.get((b, q, k)), 2) for k in keys)] for b, q in sides]
        title = f"{kind}, {bias.replace('_', ' ')}, {step}"
        text += "\n" + table([title, *(f"K={k:,}" for k in keys)], cells) + "\n"
    return text.rstrip()


def problems(answer):
    rows = [
        [
            f"{row['bias']}, {row['pass']}, {row['type']}",
            " x ".join(str(row[name]) for name in ("batch", "heads", "queries", "keys", "width")),
            number(row["milliseconds"], 2),
            number(row["torch_milliseconds"], 2),
            number(row["speedup"], 2),
        ]
        for row in answer["problems"]
    ]
    return table(["", "B x H x Q x K x D", "ms", "torch ms", "x"], rows)


def all_tables():
    run, avx2, others = load("attention.json"), load("attention_avx2.json"), load("peers.json")
    grown = load("scaling.json")
    tables = {}
    if run:
        tables["attention"] = attention(run)
        tables["targets"] = targets(Runs(run, avx2, others))
    alone = load_lines("kernels.json")
    if alone:
        tables["kernels"] = kernels(alone)
    if grown:
        tables["scaling"] = scaling(grown)
    if avx2:
        tables["avx2"] = attention(avx2)
    if others:
        tables["peers"] = peers(others)
    cells = load("grid.json")
    if cells:
        tables["grid"] = grid(cells)
        if cells["problems"]:
            tables["problems"] = problems(cells)
    encoder = load("sparse_encoder.json")
    if encoder:
        tables["sparse_encoder"] = sparse_encoder(encoder)
    frames = load("cmt.json")
    if frames:
        tables["cmt"] = cmt_frames(frames)
    return tables


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the tables in docs/performance.md")
    arguments = parser.parse_args()
    tables = all_tables()
    if not arguments.write:
        print("\n\n".join(f"## {name}\n\n{text}" for name, text in tables.items()))
        return
    page = DOCUMENT.read_text()
    for name, text in tables.items():
        opening = f"<!-- {name} -->\n"
        if page.count(opening) != 1:
            raise SystemExit(f"[tables] {DOCUMENT} must have one line {opening.strip()}, got {page.count(opening)}")
        begin = page.index(opening) + len(opening)
        page = page[:begin] + "\n" + text + "\n\n" + page[page.index("<!-- end -->", begin) :]
    part = DOCUMENT.with_suffix(".part")
    part.write_text(page)
    part.replace(DOCUMENT)


if __name__ == "__main__":
    main()
