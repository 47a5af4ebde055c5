#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command as scripts see it: exit codes, JSON keys, refusals, files that appear whole or not at all, the accuracies of the four
small networks. cli.py INTACT GROUP: groups are use, bad, networks, agree, train, tables."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PLACES = [os.environ.get("INTACT_SHARED"), ROOT / "tests/data/reference", ROOT.parent / "shared"]
INTACT = sys.argv[1]
FAILED = 0


def reference():
    for place in PLACES:
        if place and (pathlib.Path(place) / "models/resnet8/model.onnx").exists():
            return pathlib.Path(place)
    print("no reference models found: $INTACT_SHARED, tests/data/reference, ../shared")
    sys.exit(77)


SHARED = reference()
MODELS = SHARED / "models"
CALIBRATION = ["--data", MODELS / "data/train-512-images-idx3-ubyte", "--mean", "0.286", "--std", "0.353"]
TEST = ["--data", MODELS / "data/test-2000-images-idx3-ubyte", "--labels", MODELS / "data/test-2000-labels-idx1-ubyte",
        "--mean", "0.286", "--std", "0.353"]


def check(what, good, found=""):
    global FAILED
    if not good:
        FAILED += 1
        print(f"FAILED {what}: {found}")


def call(*arguments):
    done = subprocess.run([INTACT, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def call_json(*arguments, code=0):
    got, out, err = call(*arguments, "--json")
    check(f"exit code of {arguments[:2]}", got == code, f"{got}, wanted {code}: {err.strip()}")
    try:
        return json.loads(out)
    except ValueError:
        check(f"one JSON object from {arguments[:2]}", False, out[:200])
        return {}


def has_keys(what, found, *keys):
    missing = [k for k in keys if k not in found]
    check(f"keys of {what}", not missing, f"missing {missing}")


def group_use():
    with tempfile.TemporaryDirectory() as place:
        model, out = MODELS / "mlp/model.onnx", pathlib.Path(place) / "q.onnx"
        has_keys("inspect", call_json("inspect", model), "nodes", "parameters", "macs", "inputs", "outputs", "unsupported")
        check("macs of the mlp", call_json("inspect", model)["macs"] == 784 * 64 + 64 * 32 + 32 * 10, call_json("inspect", model)["macs"])
        check("parameters of the mlp", abs(call_json("inspect", model)["parameters"] - 52650) <= 8, call_json("inspect", model)["parameters"])
        check("no float node in the mlp", call_json("inspect", model)["float_nodes"] == [], call_json("inspect", model))
        check("float nodes of the lstm", [f["op"] for f in call_json("inspect", MODELS / "lstm/model.onnx")["float_nodes"]] == ["lstm"])
        for stage in ("observed", "qdq", "integer"):
            code, text, err = call("inspect", model, "--stage", stage, *CALIBRATION, "--samples", 8)
            check(f"stage {stage}", code == 0 and f"\nstage {stage}\n" in text, (code, err))
        check("no stage qdq without data", call("inspect", model, "--stage", "qdq")[0] == 2)
        labels = ["--labels", MODELS / "data/train-512-labels-idx1-ubyte"]
        result = call_json("quantize", model, *CALIBRATION, *labels, "-o", out)
        has_keys("quantize", result, "accuracy_float", "accuracy_int", "bytes_float", "bytes_int", "ms_float", "ms_int", "seconds",
                 "peak_rss_bytes", "layers", "advice")
        for layer in result.get("layers", []):
            has_keys("a layer", layer, "name", "op", "exec", "why", "sqnr_here_db", "sqnr_acc_db", "cosine", "max_abs", "clipped",
                     "range", "bias_headroom", "acc_headroom", "bytes", "macs", "ms")
        check("three linear layers", sum(l["op"] in ("linear", "addmm") for l in result.get("layers", [])) == 3, result.get("layers"))
        check("int8 file is smaller", result.get("bytes_int", 1e9) < 0.4 * result.get("bytes_float", 0), result.get("bytes_int"))
        for end in ("onnx", "intact"):
            integer_io = pathlib.Path(place) / f"io.{end}"
            call_json("quantize", model, *CALIBRATION, *labels, "-o", integer_io, "--io", "int", "--samples", 100)
            check(f"integers in and out of .{end}", [v["dtype"] for k in ("inputs", "outputs") for v in call_json("inspect", integer_io)[k]] ==
                  ["u8", "u8"], call_json("inspect", integer_io))
            accuracy = call_json("eval", integer_io, *TEST, "--samples", 500).get("accuracy", 0)
            check(f".{end} of integers is as accurate", accuracy > 85, accuracy)
            for pair in ((model, integer_io), (integer_io, model)):
                outputs = call_json("compare", *pair, *CALIBRATION, "--samples", 50).get("outputs") or [{}]
                check(f"compare with integers in .{end}", (outputs[0].get("sqnr_db") or 0) > 25, outputs)
        first = out.read_bytes()
        call("quantize", model, *CALIBRATION, "-o", out)
        check("the same command writes the same bytes", first == out.read_bytes())
        intact_file = pathlib.Path(place) / "q.intact"
        has_keys("export", call_json("export", out, "-o", intact_file), "bytes", "nodes")
        a, b = call_json("eval", out, *TEST, "--samples", 500), call_json("eval", intact_file, *TEST, "--samples", 500)
        has_keys("eval", a, "accuracy", "top5", "samples", "seconds")
        check("QDQ and .intact are one network", a.get("accuracy") == b.get("accuracy"), (a, b))
        compared = call_json("compare", model, out, *CALIBRATION, "--samples", 64)
        has_keys("compare", compared, "layers", "outputs")
        check("layers agree with those of the original", len(compared.get("layers", [])) == 3 and
              all((l["sqnr_here_db"] or 0) > 25 for l in compared["layers"]), compared.get("layers"))
        check("float nodes of a quantized network", call_json("inspect", out)["float_nodes"] == [])
        has_keys("outputs", (compared.get("outputs") or [{}])[0], "sqnr_db", "cosine", "max_abs", "max_steps")
        code, text, _ = call("bench", intact_file, "--runs", 5, "--batch", 2)
        check("bench ends with 'ms N'", code == 0 and text.splitlines()[-1].split()[0] == "ms", text)
        has_keys("bench", call_json("bench", intact_file, "--runs", 5), "ms_min", "ms_median", "layers", "peak_rss_bytes")
        y = pathlib.Path(place) / "y.npy"
        run = call_json("run", model, "--input", MODELS / "mlp/sample.safetensors", "--output", y)
        check("run names its outputs", run.get("outputs", [{}])[0].get("name") == "y", run)
        check("run writes its output", y.exists() and y.stat().st_size == 128 + 16 * 10 * 4, y.stat().st_size if y.exists() else "-")
        config = pathlib.Path(place) / "c.json"
        config.write_text('{"no-equalize": true, "no-bias-correction": true, "samples": 64, "observer": "min_max"}')
        call_json("quantize", model, *CALIBRATION, "-o", out, "--config", config)
        config.write_text('{"nonsense": 1}')
        call_json("quantize", model, *CALIBRATION, "-o", out, "--config", config, code=2)


def hostile_surroundings(place, model, out):
    """Pipes nobody writes to, names that are no text, numbers beyond 64 bits, outputs that can't be written."""
    pipe = place / "pipe"
    os.mkfifo(pipe)
    cases = [("a pipe as model", ("inspect", pipe), 1), ("a pipe as data", ("eval", model, "--data", pipe), 1),
             ("a pipe as options", ("eval", model, "--config", pipe), 2),
             ("samples beyond 64 bits", ("eval", model, *CALIBRATION, "--samples", "99999999999999999999"), 2),
             ("a number after a blank", ("inspect", model, "--threads", " 1"), 2),
             ("a name that is no UTF-8", ("inspect", os.fsdecode(bytes(place) + b"/\xff\xfe\n.onnx")), 1),
             ("a verb that is no UTF-8", (os.fsdecode(b"\xff"), model), 2),
             ("no place for the outputs", ("run", model, "--input", MODELS / "mlp/sample.safetensors", "--output", "/nowhere/y.npy"), 1),
             ("no format for the outputs", ("run", model, "--input", MODELS / "mlp/sample.safetensors", "--output", place / "y.doc"), 1)]
    for what, arguments, wanted in cases:
        done = subprocess.run([INTACT, *map(str, arguments)], capture_output=True, timeout=120)
        check(what, done.returncode == wanted and done.stderr.count(b"\n") == 1 and not done.stdout, (done.returncode, done.stderr))
        check(f"{what}: the message is text", done.stderr.decode("utf-8", "replace").rstrip("\n").isprintable(), done.stderr)
        error = call_json(*arguments, code=wanted).get("error", {})
        check(f"{what} as JSON", set(error) == {"kind", "message", "where"} and error["message"], error)
    pipe.unlink()
    for arguments in (["--help"], ["--version"], ["ops"], ["inspect", model, "--stage", "float"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([INTACT, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE)
        check(f"{arguments[0]} to a full disk", done.returncode == 1 and done.stderr.count(b"\n") == 1, done)
    closed = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', INTACT, "inspect", str(model)], stderr=subprocess.PIPE)
    check("a closed standard output", closed.returncode == 1 and closed.stderr.count(b"\n") == 1, closed)


def group_bad():
    model = MODELS / "mlp/model.onnx"
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        out = place / "q.onnx"
        wrong_use = [("quantize",), ("quantize", model), ("quantize", model, "-o", out), ("quantize", model, *CALIBRATION),
                     ("quantize", model, *CALIBRATION, "-o", place / "q.doc"), ("nonsense", model), ("eval", model, "--what"),
                     ("eval", model, *CALIBRATION, "--batch", "0"), ("eval", model, *CALIBRATION, "--batch", "x"),
                     ("eval", model, "--data", "x", "--mean", "a"), ("quantize", model, *CALIBRATION, "-o", out, "--activations", "u9"),
                     ("bench", model, "--isa", "sse9"), ("bench", model, "--engine", "fast"), ("run", model), ("compare", model)]
        for arguments in wrong_use:
            code, text, err = call(*arguments)
            check(f"wrong use {[str(a) for a in arguments]}", code == 2 and err.startswith("intact") and not text, (code, err))
        (place / "empty.onnx").write_bytes(b"")
        (place / "text.onnx").write_text("this is no model")
        (place / "short.npy").write_bytes(b"\x93NUMPY")
        (place / "folder").mkdir()
        unknown = call_json("inspect", SHARED / "samples/broken/onnx/unknown_op.onnx", code=1)
        check("list of unsupported ops", unknown["error"]["kind"] == "unsupported-op" and
              unknown["unsupported"] == [{"op": "ai.onnx.MagicRelu", "node": "node_relu"}], unknown)
        failing = {
            "no such model": ("inspect", place / "absent.onnx"),
            "empty model": ("inspect", place / "empty.onnx"),
            "not a model": ("inspect", place / "text.onnx"),
            "no such data": ("eval", model, "--data", place / "absent"),
            "short data": ("eval", model, "--data", place / "short.npy"),
            "empty folder": ("quantize", model, "--data", place / "folder", "-o", out),
            "labels as data": ("eval", model, "--data", MODELS / "data/test-2000-labels-idx1-ubyte"),
            "too few labels": ("eval", model, *TEST[:2], "--labels", MODELS / "data/train-512-labels-idx1-ubyte"),
            "unwritable output": ("quantize", model, *CALIBRATION, "-o", "/nowhere/q.onnx"),
            "unknown quantizer": ("quantize", model, *CALIBRATION, "-o", out, "--quantizer", "magic"),
            "unknown observer": ("quantize", model, *CALIBRATION, "-o", out, "--observer", "magic"),
            "wrong input": ("run", model, "--input", SHARED / "samples/npy/f32.npy"),
        }
        for what, arguments in failing.items():
            code, text, err = call(*arguments)
            check(what, code == 1 and err.count("\n") == 1 and not text, (code, err, text[:100]))
            error = call_json(*arguments, code=1).get("error", {})
            check(f"{what} as JSON", set(error) == {"kind", "message", "where"} and error["message"], error)
        hostile_surroundings(place, model, out)
        (place / "wide.idx").write_bytes(b"\0\0\x08\xff" + bytes(1100))
        code, _, err = call("inspect", place / "wide.idx")
        check("a message names the file", code == 1 and "wide.idx" in err and "255 dimensions" in err, err)
        (place / "wide.idx").unlink()
        check("nothing was written", sorted(p.name for p in place.iterdir()) == ["empty.onnx", "folder", "short.npy", "text.onnx"],
              list(place.iterdir()))


def group_networks():
    within = {"cnn": 0.3, "resnet8": 0.3, "mobilenet": 0.4, "mlp": 0.3}
    with tempfile.TemporaryDirectory() as place:
        for name, points in within.items():
            out = pathlib.Path(place) / f"{name}.onnx"
            model = MODELS / name / "model.onnx"
            result = call_json("quantize", model, *CALIBRATION, "-o", out, "--threads", 2)
            check(f"{name}: all layers that compute are integer",
                  all(l["exec"] == "int" for l in result.get("layers", []) if l["macs"]), result.get("layers"))
            before = call_json("eval", model, *TEST).get("accuracy", 0)
            after = call_json("eval", out, *TEST).get("accuracy", 0)
            print(f"{name}: {before} -> {after} ({result.get('seconds')} s, {result.get('peak_rss_bytes', 0) / 1e6:.0f} MB)")
            check(f"{name}: within {points} points of float", after >= before - points - 1e-9, (before, after))
            if name == "resnet8" and not os.environ.get("INTACT_BUILD"):  # not under a sanitizer
                check("resnet8: under 120 MB", result.get("peak_rss_bytes", 0) < 120e6, result.get("peak_rss_bytes"))


def group_agree():
    """The networks that are exported mean in ONNX Runtime what the integer program computes."""
    oracle = [sys.executable, ROOT / "tools/oracle.py"]
    if subprocess.run([*oracle, "prepare"]).returncode != 0:
        sys.exit(77)
    with tempfile.TemporaryDirectory() as place:
        for name in ("mlp", "cnn", "resnet8", "mobilenet"):
            out = pathlib.Path(place) / f"{name}.onnx"
            call_json("quantize", MODELS / name / "model.onnx", *CALIBRATION, "-o", out)
            done = subprocess.run([*oracle, "agree", INTACT, out, TEST[1], "0.286", "0.353"], capture_output=True, text=True)
            check(f"{name}: ONNX Runtime runs it", done.returncode == 0, done.stderr)
            result = json.loads(done.stdout or "{}")
            print(f"{name}: {result}")
            check(f"{name}: within one step", result.get("max_steps", 9) <= 1, result)
            check(f"{name}: equal for 99.5 %", result.get("equal", 0) >= 99.5, result)


TRAIN = [*CALIBRATION, "--labels", MODELS / "data/train-512-labels-idx1-ubyte", "--lr", "1e-3"]
HELD_OUT = ["--test-data", MODELS / "data/test-2000-images-idx3-ubyte", "--test-labels", MODELS / "data/test-2000-labels-idx1-ubyte"]


def train_wrongly(place, out):
    model, nonsense = MODELS / "mlp/model.onnx", pathlib.Path(place) / "labels.npy"
    nonsense.write_bytes(b"\x93NUMPY\x01\x00F\x00{'descr': '|u1', 'fortran_order': False, 'shape': (512,), }".ljust(79) + b"\n" + bytes([200]) * 512)
    bad = ["--labels", nonsense]
    wrong = ((["--from-scratch", "nothing"], 1, "resnet8"), ([], 2, "MODEL"), ([model, "--from-scratch", "mlp"], 2, "either"),
             ([model, "--lr", "0"], 2, "above 0"), ([model, "--lr", "-1"], 2, "--lr"), ([model, "--batch", "513"], 1, "513"),
             ([model, *bad], 1, "200"), ([model, "--bits-weights", "9"], 2, "2 to 8"), ([model, "--resume"], 2, "--checkpoint"),
             ([model, "--optimizer", "Best"], 2, "AdamW"), ([model, "--method", "magic"], 1, "lsq"), ([model, "--weights", "x"], 2, "--from-scratch"),
             ([model, "--schedule", "StepLR:step_size=0"], 1, "step_size"), ([model, "--log", "/no/such/folder/log"], 2, "/no/such"), ([model, "--test-data", "x"], 2, "--test-labels"),
             ([model, "--float", "--optimizer", "SGD", "--lr", "1e30"], 1, "step 1"), ([model, "--lr", "--quiet"], 2, "--quiet' follows"),
             ([model, "--float", "--method", "lsq"], 2, "--method"), ([model, "--distill-weight", "1"], 2, "--distill MODEL"),
             ([model, "--momentum", "0.9"], 2, "AdamW has none"), ([model, "--optimizer", "SGD:beta1=0.9"], 2, "beta1"),
             ([model, "--schedule", "StepLR:T_max=3"], 2, "T_max"), ([model, "--bits-weights", "fc9=4"], 1, "fc9"),
             ([model, "--log", out], 2, "-o and --log"), ([model, "--labels", MODELS / "data/test-2000-labels-idx1-ubyte"], 1, "2000 labels"))
    for arguments, code, word in wrong:
        got, _, err = call("train", *TRAIN, *arguments, "-o", out, "--quiet")
        check(f"refusal of train {arguments[-2:]}", got == code and word in err and not out.exists(), (got, err))
    limited = subprocess.run(["bash", "-c", 'ulimit -f 20; exec "$@"', "x", INTACT, "train", *map(str, [model, *TRAIN, "-o", out])], capture_output=True, text=True)
    check("a file beyond the limit", limited.returncode == 1 and str(out) in limited.stderr and not out.exists(), limited)
    for option in ("--log", "--report"):
        got, text, err = call("train", model, *TRAIN, "-o", out, option, "/dev/full", "--quiet", "--json")
        check(f"{option} on a full disk", got == 1 and json.loads(text).get("error", {}).get("kind") == "io" and "/dev/full" in err, (got, text, err))
    out.unlink()


def train_together(out):
    """Two processes compute what one does. Without mpirun, or MPI in the build, there is nothing to see."""
    starter = shutil.which("mpirun")
    if not starter or b"libmpi" not in subprocess.run(["ldd", INTACT], capture_output=True).stdout or os.environ.get("INTACT_BUILD"):
        return

    def start(n, network, *arguments):
        command = [starter, "--allow-run-as-root", "--oversubscribe", "-n", n, INTACT, "train", "--from-scratch", network, *TRAIN, "-o", out, *arguments]
        return subprocess.run([str(c) for c in command], capture_output=True, text=True)

    # Two replicas are the default: the same bits.
    for network, extra in (("cnn", []), ("mlp", ["--method", "lsq", "--bits-weights", "4"]), ("cnn", ["--replicas", "4", "--batch", "60"]),
                           ("cnn", ["--float"])):
        losses = []
        for n in (1, 2):
            log = pathlib.Path(f"{out}.log")
            done = start(n, network, "--json", "--log", log, *extra)
            check(f"exit code of {n} processes", done.returncode == 0, done.stderr)
            losses.append(json.loads(log.read_text())["losses"] if done.returncode == 0 else [])
        check(f"two processes lose what one does, {network} {extra}", len(losses[0]) > 8 and losses[0] == losses[1], losses)
    done = start(2, "mlp", "--batch", "600")
    check("failure of processes", done.returncode == 1 and "600" in done.stderr, (done.returncode, done.stderr))


def group_train():
    with tempfile.TemporaryDirectory() as place:
        out, page, log = (pathlib.Path(place) / n for n in ("t.onnx", "t.html", "t.json"))
        # PyTorch 2.13.0: the same seeds, AdamW, one cycle to 1e-3, batch 32, one epoch of 512 images.
        for network, loss, accuracy, bound in (("mlp", 2.038968965, 31.4453125, 1e-5), ("cnn", 1.656025194, 44.140625, 1e-4)):
            result = call_json("train", "--from-scratch", network, *TRAIN, "--float", "-o", out, "--report", page, "--log", log)
            has_keys("train", result, "epochs", "accuracy", "events", "seconds")
            check(f"loss of {network}", abs(result["epochs"][0]["loss"] - loss) < bound, result["epochs"])
            check(f"accuracy of {network}", abs(result["epochs"][0]["accuracy"] - accuracy) < 0.4, result["epochs"])
        check("page", "<svg" in page.read_text() and "<script" not in page.read_text())
        check("log", len(json.loads(log.read_text())["losses"]) == 16)
        # From float weights, for integers: no accuracy is lost on 2,000 images; what is written runs as it was trained.
        state = ["--from-scratch", "cnn", "--weights", MODELS / "cnn/model.safetensors"]
        result = call_json("train", *state, *TRAIN, *HELD_OUT, "--lr", "1e-4", "-o", out)
        check("accuracy of the cnn in integers", result["accuracy"] > 92.4, result)
        check("largest difference", result["max_steps"] <= 1, result)
        check("the file has that accuracy", abs(call_json("eval", out, *TEST)["accuracy"] - result["accuracy"]) < 0.2)
        # An imported network, few bits, learned scales.
        result = call_json("train", MODELS / "mlp/model.onnx", *TRAIN, *HELD_OUT, "--method", "lsq", "--bits-weights", "4",
                           "--bits-activations", "4", "-o", out)
        check("4 bits", result["accuracy"] > 84 and any("learned" in e for e in result["events"]), result)
        folder = pathlib.Path(place) / "checkpoints"
        whole = call_json("train", MODELS / "mlp/model.onnx", *TRAIN, "--epochs", "2", "-o", out, "--checkpoint", folder)
        again = call_json("train", MODELS / "mlp/model.onnx", *TRAIN, "--epochs", "2", "-o", out, "--checkpoint", folder, "--resume")
        check("a finished training resumes to its end", [e["loss"] for e in whole["epochs"]] == [e["loss"] for e in again["epochs"]] and
              whole["accuracy"] == again["accuracy"], (whole, again))
        out.unlink()
        train_wrongly(place, out)
        train_together(out)


def group_tables():
    for verb in ("ops", "kernels", "quantizers", "observers", "fake_quantizers", "optimizers", "schedulers", "networks", "passes", "formats"):
        rows = call_json(verb).get("rows", [])
        check(f"rows of {verb}", len(rows) > 0 and all(isinstance(r, dict) for r in rows), rows[:1])
        check(f"text of {verb}", call(verb)[0] == 0)
    check("version", call("--version")[1].startswith("intact "))
    check("help", call("--help")[0] == 0 and call()[0] == 2)
    for verb in ("inspect", "quantize", "train", "run", "eval", "compare", "bench", "export"):
        code, text, _ = call(verb, "--help")
        check(f"help of {verb}", code == 0 and "--json" in text, text)
        check(f"intact help {verb}", call("help", verb)[1] == text)
    for kind in ("--man", "--completion"):
        check(kind, call("help", kind)[0] == 0)


def main():
    {"use": group_use, "bad": group_bad, "networks": group_networks, "agree": group_agree, "train": group_train, "tables": group_tables}[sys.argv[2]]()
    print(f"{FAILED} failed")
    return 1 if FAILED else 0


sys.exit(main())
