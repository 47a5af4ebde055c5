#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other engines as judges: runs a model in ONNX Runtime or OpenVINO on tensors from a .safetensors file.

    oracle.py agree INTACT MODEL IMAGES.idx MEAN STD
    oracle.py run MODEL INPUTS.safetensors OUTPUTS.safetensors [--engine ort|ort-optimized|openvino]
    oracle.py check MODEL        the checker of the onnx package, full
    oracle.py fused MODEL        operators of the model as ONNX Runtime optimizes it, "op count" per line
    oracle.py batch FILE         one of the above per line of FILE, words separated by tabs
    oracle.py prepare            only makes the environment

The engines live in a private environment in $INTACT_ORACLE (default ~/.cache/intact/oracle), made on first use with pip.
Without a network it cannot be made: one loud line and exit code 77, which the tests take as skipped. ort runs without
graph optimizations, where quantize and dequantize are computed in float as the standard defines them."""
import json
import os
import struct
import subprocess
import sys

PACKAGES = ["numpy==2.4.6", "onnx==1.23.2", "onnxruntime==1.32.0", "openvino==2026.4.1"]
HOME = os.environ.get("INTACT_ORACLE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "intact", "oracle")
STAMP = os.path.join(HOME, "ready-" + "-".join(p.replace("==", "_") for p in PACKAGES))
DTYPES = {"F32": "f4", "F64": "f8", "F16": "f2", "I8": "i1", "U8": "u1", "I16": "i2", "U16": "u2", "I32": "i4", "U32": "u4",
          "I64": "i8", "U64": "u8", "BOOL": "?"}


def skip(why):
    print("SKIPPED: no oracle (%s): ONNX Runtime and OpenVINO did not check anything" % why, file=sys.stderr)
    sys.exit(77)


def prepare():
    """Makes the environment, under a lock so that tests that run at the same time make it once."""
    import fcntl
    python = os.path.join(HOME, "bin", "python3")
    if os.path.exists(STAMP):
        return python
    try:
        os.makedirs(HOME, exist_ok=True)
        with open(os.path.join(HOME, "lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(STAMP):
                print("making %s (%s)" % (HOME, " ".join(PACKAGES)), file=sys.stderr)
                subprocess.run([sys.executable, "-m", "venv", HOME], check=True, capture_output=True)
                subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check"] + PACKAGES, check=True,
                               capture_output=True, timeout=900)
                open(STAMP, "w").close()
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None)
        skip((output.decode(errors="replace").strip().splitlines() or [str(error)])[-1] if output else str(error))
    return python


def read_tensors(path):
    import numpy
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        tensors[name] = numpy.frombuffer(data[begin:end], "<" + DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def write_tensors(path, tensors):
    names = {numpy_name: name for name, numpy_name in DTYPES.items()}
    header, parts, offset = {}, [], 0
    for name, tensor in tensors.items():
        kind = "?" if tensor.dtype.kind == "b" else tensor.dtype.kind + str(tensor.dtype.itemsize)
        content = tensor.tobytes()
        header[name] = {"dtype": names[kind], "shape": list(tensor.shape), "data_offsets": [offset, offset + len(content)]}
        parts.append(content)
        offset += len(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def session(model, optimized, save=None):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = (onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED if optimized else
                                        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    if save:
        options.optimized_model_filepath = save
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run_openvino(model, inputs):
    import openvino
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled({port.get_any_name(): inputs[port.get_any_name()] for port in compiled.inputs})
    return {port.get_any_name(): results[port] for port in compiled.outputs}


def run(model, inputs, outputs, engine):
    given = read_tensors(inputs)
    if engine == "openvino":
        write_tensors(outputs, run_openvino(model, given))
        return
    ready = session(model, engine == "ort-optimized")
    names = [output.name for output in ready.get_outputs()]
    results = ready.run(names, {item.name: given[item.name] for item in ready.get_inputs()})
    write_tensors(outputs, dict(zip(names, results)))


def check(model):
    import onnx
    onnx.checker.check_model(model, full_check=True)


def fused(model):
    import collections
    import tempfile
    import onnx
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "optimized.onnx")
        session(model, True, path)
        counts = collections.Counter(node.op_type for node in onnx.load(path).graph.node)
    for op, count in sorted(counts.items()):
        print(op, count)


def agree(intact, model, images, mean, std):
    """Prints the share of equal outputs (percent) and the largest difference in steps of the last QuantizeLinear, ONNX Runtime
    without optimizations against the integer program, on all images."""
    import numpy
    import onnx
    import tempfile
    with open(images, "rb") as file:
        pixels = numpy.frombuffer(file.read()[16:], numpy.uint8)
    ready = session(model, False)
    shape = [-1] + ready.get_inputs()[0].shape[1:]
    one = numpy.float32
    x = ((pixels.astype(one) / one(255) - one(mean)) / one(std)).reshape(shape)
    wanted = ready.run(None, {ready.get_inputs()[0].name: x})[0]
    with tempfile.TemporaryDirectory() as folder:
        given, got = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
        numpy.save(given, x)
        subprocess.run([intact, "run", model, "--input", given, "--output", got], check=True, stdout=subprocess.DEVNULL)
        found = numpy.load(got)
    graph = onnx.load(model).graph
    scale = [node.input[1] for node in graph.node if node.op_type == "QuantizeLinear"][-1]
    step = [float(onnx.numpy_helper.to_array(t)) for t in graph.initializer if t.name == scale][0]
    steps = numpy.rint(numpy.abs(found - wanted) / step)
    print(json.dumps({"equal": 100 * float(numpy.mean(steps == 0)), "max_steps": int(steps.max())}))


def execute(arguments):
    if arguments[0] == "run":
        engine = arguments[arguments.index("--engine") + 1] if "--engine" in arguments else "ort"
        run(arguments[1], arguments[2], arguments[3], engine)
    elif arguments[0] == "check":
        check(arguments[1])
    elif arguments[0] == "fused":
        fused(arguments[1])
    elif arguments[0] == "agree":
        agree(*arguments[1:])
    elif arguments[0] == "batch":
        with open(arguments[1]) as lines:
            for line in lines:
                execute(line.rstrip("\n").split("\t"))


def main(arguments):
    if not arguments or arguments[0] not in ("run", "check", "fused", "agree", "batch", "prepare"):
        sys.exit(__doc__)
    python = prepare()
    if os.path.realpath(sys.prefix) != os.path.realpath(HOME):
        os.execv(python, [python, os.path.abspath(__file__)] + arguments)
    execute(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
