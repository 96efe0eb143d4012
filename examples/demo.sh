#!/bin/sh
# What `make demo` shows: models that pass, then models that a gate must stop.
set -eu
cd "$(dirname "$0")/.."

echo "== examples/quickstart: a scikit-learn pipeline and a PyTorch model, converted and compared"
onnx-gate run examples/quickstart/onnx-gate.yml --output onnx-gate-report/quickstart

echo
echo "== examples/diverges: a forgotten export, and a model that its converter translates wrongly"
code=0
onnx-gate run examples/diverges/onnx-gate.yml --output onnx-gate-report/diverges || code=$?
if [ "$code" -ne 1 ]; then
    echo "expected exit code 1 (diverged), got $code" >&2
    exit 1
fi

echo
echo "== stopped with exit code 1, as it should be. The report, as a job summary shows it:"
sed '/<details>/,/<\/details>/d' onnx-gate-report/diverges/summary.md
echo "All of it: onnx-gate-report/diverges/summary.md (and report.html, junit.xml, results.json, models/, logs/)"
