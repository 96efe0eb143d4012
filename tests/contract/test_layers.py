"""The plan of the house: who may import whom, and who may import what is heavy."""

from __future__ import annotations

import ast

import pytest

from onnx_gate.frameworks.registry import REGISTRY
from tests.contract.sources import LIGHT, MODULES, Module, imports, reachable, room_of

# Left may import right, never back; those in one line don't import each other.
LAYERS = (
    {"__main__"},
    {"cli"},
    {"publish", "signals", "shards"},
    {"comments"},
    {"arguments", "progress", "doctor", "requirements", "settings", "github", "reports", "folder"},
    {"console", "removal", "lock"},
    {"pipeline"},
    {"selection"},
    {"verdict", "numbers", "environment", "split", "references"},
    {"coverage"},
    {"worker"},
    {"triage"},
    {"frameworks", "inputs", "providers", "compare", "structure", "variants"},
    {"runtime", "onnx_names"},
    {"sources", "cpu", "trust"},
    {"manifest"},
    {"registry", "providers_table"},
    {"wording"},
    {"records"},
    {"errors"},
    {"vocabulary"},
)
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
HEAVY = {package for info in REGISTRY.values() for package in info.packages}
HEAVY |= {"numpy", "onnxruntime", "joblib", "pandas", "pyarrow", "skops", "onnxconverter_common"}
HEAVY_ROOMS = {
    "frameworks",
    "inputs",
    "providers",
    "compare",
    "structure",
    "triage",
    "runtime",
    "onnx_names",
    "variants",
}
CHILD_SIDE = {
    f"onnx_gate.worker.{name}"
    for name in (
        "child",
        "server",
        "judge",
        "prepare",
        "matching",
        "evidence",
        "rounding",
        "rows",
        "given",
        "edges",
        "run",
        "lowering",
        "lowered",
        "twice",
        "latency",
        "archive",
        "travel",
    )
}

every_module = pytest.mark.parametrize("module", MODULES.values(), ids=MODULES.keys())


def test_every_room_has_its_layer() -> None:
    """A new room is put into the order before anything imports it."""
    assert {module.room for module in MODULES.values()} - {""} == set(RANK)


@every_module
def test_left_may_import_right_and_never_back(module: Module) -> None:
    """A module imports its own room and those further right; the package itself holds just the version."""
    if not module.room:
        assert not list(imports(module))
        return
    own = RANK[module.room]
    wrong = [
        f"{module.name}:{each.line} imports {each.name}"
        for each in imports(module)
        if each.name.partition(".")[0] == "onnx_gate"
        and (room := room_of(each.name)) not in ("", module.room)
        and RANK[room] <= own
    ]
    assert wrong == []


@every_module
def test_what_is_heavy_is_imported_in_workers_only(module: Module) -> None:
    """No numpy, no onnx, no framework when a module of the parent is imported."""
    if module.room in HEAVY_ROOMS or module.name in CHILD_SIDE:
        return
    heavy = [each.name for each in imports(module) if each.at_module_level and each.name.partition(".")[0] in HEAVY]
    assert heavy == []


def test_the_parent_never_gets_to_what_is_heavy() -> None:
    """Following every import of the command line, also those in functions, leads to no framework."""
    parent = reachable("onnx_gate.cli", "onnx_gate.__main__")
    assert "onnx_gate.worker.supervisor" in parent
    assert parent & CHILD_SIDE == set()
    heavy = {(name, each.name) for name in parent for each in imports(MODULES[name])}
    assert {pair for pair in heavy if pair[1].partition(".")[0] in HEAVY} == set()


@every_module
def test_framework_modules_are_loaded_by_name(module: Module) -> None:
    """Nobody imports one when it is imported itself: a missing torch must not break scikit-learn.

    What a plug-in is made of is for plug-ins only.
    """
    named = {
        each.name
        for each in imports(module)
        if each.at_module_level and each.name.startswith("onnx_gate.frameworks.") and not LIGHT.fullmatch(each.name)
    }
    assert named & {info.plugin for info in REGISTRY.values()} == set()
    if not module.name.startswith("onnx_gate.frameworks."):
        assert named == set()


@every_module
def test_settings_is_the_only_reader_of_the_environment(module: Module) -> None:
    """Neither os.environ nor os.getenv anywhere else; a worker is given its own by the parent."""
    if module.name in ("onnx_gate.settings", "onnx_gate.worker.child"):
        return
    names = {"environ", "environb", "getenv", "getenvb"}
    readers = [
        ast.unparse(node)
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Attribute) and ast.unparse(node.value) == "os" and node.attr in names)
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and names & {alias.name for alias in node.names})
    ]
    assert readers == []


@every_module
def test_no_process_inherits_the_environment(module: Module) -> None:
    """Whoever starts a process says what it may see: the token of a workflow is not for models."""
    starters = {"subprocess.run", "subprocess.Popen", "subprocess.check_output", "subprocess.check_call"}
    calls = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    careless = [
        node.lineno
        for node in calls
        if ast.unparse(node.func) in starters and "env" not in {keyword.arg for keyword in node.keywords}
    ]
    assert careless == []
    forbidden = {"os.system", "os.popen", "subprocess.getoutput", "os.execv", "os.execve", "os.spawnv"}
    assert [ast.unparse(node.func) for node in calls if ast.unparse(node.func) in forbidden] == []
