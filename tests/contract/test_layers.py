"""The plan of the house: a path says which process, and who may import whom."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import PurePosixPath

import pytest

from onnx_gate.frameworks.registry import REGISTRY
from tests.contract.sources import PACKAGE, REPOSITORY, Module, every_module, imports, modules, reachable

# Left may import right, never back; rooms in one set don't import each other.
PARENT: tuple[set[str], ...] = (
    {"__main__"},
    {"cli"},
    {"baselines"},
    {"publish", "shards", "calibration", "first_manifest"},
    {"reports", "github"},
    {"gate"},
    {"cache"},
    {"processes", "references"},
    {"manifest"},
)
CHILD: tuple[set[str], ...] = (
    {"worker"},
    {"worker.repro"},
    {"worker.triage", "worker.strength", "worker.noise", "worker.failing"},
    {"worker.place"},
    {"worker.references"},
    {"worker.archive", "worker.trial"},
    {"plug-ins"},
    {"worker.variants"},
    {"worker.inputs", "worker.compare", "worker.onnx_files"},
    {"worker.domains"},
    {"worker.runtime"},
    {"worker.user_code", "worker.log", "worker.contents"},
)
BOTH: tuple[set[str], ...] = (
    {"frameworks"},
    {"protocol", "providers", "kernel", "machine", "repository"},
    {"wording"},
    {"records"},
    {"errors"},
    {"vocabulary"},
)
RANK = {
    **{room: rank for rank, rooms in enumerate((*PARENT, *BOTH)) for room in rooms},
    **{room: rank - len(CHILD) + len(PARENT) for rank, rooms in enumerate(CHILD) for room in rooms},
}
HEAVY = {"numpy", "onnx", "onnxruntime", "pandas", "pyarrow", "joblib", "skops", "onnxconverter_common"}
HEAVY |= {package for info in REGISTRY.values() for package in info.packages}
MOST_MODULES = 12
MOST_LOOSE = 8


def room_of(name: str) -> str:
    """The room of a module: the longest name of the plan that it lies in; empty for the package itself."""
    parts = name.split(".")[1:]
    if parts[:1] == ["frameworks"]:
        # What a framework's folder says of it is light and for both; the rest of the folder is for workers.
        return "plug-ins" if len(parts) > 2 else "frameworks"
    rooms = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((room for room in rooms if room in RANK), "")


def is_childs(name: str) -> bool:
    """Whether only workers may import it."""
    return room_of(name).partition(".")[0] in ("worker", "plug-ins")


def is_parents(name: str) -> bool:
    """Whether only the gate's own process may import it."""
    return any(room_of(name) in rooms for rooms in PARENT)


def test_a_module_that_fails_a_test_of_every_module_is_named() -> None:
    """With what is wrong in it."""

    @every_module
    def wrong(module: Module) -> None:
        assert module.name != "onnx_gate.machine", "something"

    with pytest.raises(AssertionError, match=r"onnx_gate\.machine.*something"):
        wrong()


def test_every_module_has_its_layer() -> None:
    """A new room is put into the order before anything imports it."""
    assert [name for name in modules() if name != PACKAGE and not room_of(name)] == []


@every_module
def test_left_may_import_right_and_never_back(module: Module) -> None:
    """A module imports its own room and those further right; the package itself holds just the version."""
    if module.name == PACKAGE:
        assert not imports(module)
        return
    own = room_of(module.name)
    wrong = [
        f"{module.name}:{each.line} imports {each.name}"
        for each in imports(module)
        if each.name.startswith(f"{PACKAGE}.")
        and (room := room_of(each.name)) not in ("", own)
        and (RANK[room] <= RANK[own] or (is_childs(each.name) != is_childs(module.name) and not _is_for_both(room)))
    ]
    assert wrong == []


def _is_for_both(room: str) -> bool:
    return any(room in rooms for rooms in BOTH)


def test_the_parent_never_gets_to_what_is_heavy() -> None:
    """Following every import of the command line, also those in functions, leads to no worker and no framework."""
    parent = reachable("onnx_gate.cli.main", "onnx_gate.__main__")
    assert "onnx_gate.processes.supervisor" in parent
    assert {name for name in parent if is_childs(name)} == set()
    assert {(name, each.name) for name in parent for each in imports(modules()[name]) if _is_heavy(each.name)} == set()


def test_a_worker_never_gets_to_the_parents_rooms() -> None:
    """Nor to the code that judges, reports or starts others."""
    child = reachable("onnx_gate.worker.server", "onnx_gate.worker.child", *(info.plugin for info in REGISTRY.values()))
    assert "onnx_gate.worker.judge" in child
    assert {name for name in child if is_parents(name)} == set()


@every_module
def test_what_is_heavy_is_imported_in_workers_only(module: Module) -> None:
    """No numpy, no onnx, no framework in a module that the parent may import."""
    if not is_childs(module.name):
        assert [each.name for each in imports(module) if _is_heavy(each.name)] == []


def _is_heavy(name: str) -> bool:
    return name.partition(".")[0] in HEAVY


@every_module
def test_plug_ins_are_loaded_by_name(module: Module) -> None:
    """Nobody outside of a framework's folder imports from it: a missing package must not break another framework.

    What a folder offers to others stands here.
    """
    shared = {("sklearn", "boosters"), ("keras", "torch"), ("keras", "tensorflow")}
    own = module.name.split(".")[2] if module.name.startswith("onnx_gate.frameworks.") else ""
    named = {
        each.name.split(".")[2] for each in imports(module) if each.at_module_level and room_of(each.name) == "plug-ins"
    }
    assert {(own, other) for other in named - {own}} - shared == set()


def test_no_folder_is_crowded() -> None:
    """Somebody who looks for a thing finds it by name."""
    files = [path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / PACKAGE).rglob("*.py")]
    counted = Counter(str(PurePosixPath(file).parent) for file in files)
    assert {folder: count for folder, count in counted.items() if count > MOST_MODULES} == {}
    assert counted[PACKAGE] <= MOST_LOOSE


@every_module
def test_one_module_reads_the_environment(module: Module) -> None:
    """Neither os.environ nor os.getenv anywhere else; a worker is given its own by the parent.

    Some frameworks read variables as they are imported, and offer no other way to set them. Their plug-ins may touch
    those that their INFO lets a worker have, each by its name.
    """
    if module.name in (
        "onnx_gate.cli.settings",
        "onnx_gate.cli.environ",
        "onnx_gate.worker.child",
        "onnx_gate.worker.observed.recorder",
    ):
        return
    allowed = _own_variables(module)
    assert [ast.unparse(node) for node in _reads_environment(module) if node not in allowed] == []


def _own_variables(module: Module) -> set[ast.AST]:
    """The uses of os.environ in a plug-in for one variable that its INFO names, such as os.environ["X"]."""
    if room_of(module.name) != "plug-ins":
        return set()
    folder = ".".join(module.name.split(".")[:3])
    patterns = [
        pattern for info in REGISTRY.values() if info.plugin.startswith(f"{folder}.") for pattern in info.variables
    ]
    return {
        use
        for node in ast.walk(module.tree)
        for use, name in _named_variable(node)
        if any(re.fullmatch(pattern, name) for pattern in patterns)
    }


def _named_variable(node: ast.AST) -> list[tuple[ast.AST, str]]:
    """`os.environ["X"]` and `os.environ.get("X")`, with the name of the variable."""
    match node:
        case ast.Subscript(value=ast.Attribute() as use, slice=ast.Constant(value=str(name))):
            return [(use, name)]
        case ast.Call(func=ast.Attribute(value=ast.Attribute() as use), args=[ast.Constant(value=str(name)), *_]):
            return [(use, name)]
    return []


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("os.environ['TORCH_HOME']", True),
        ("os.environ.get('TORCH_HOME')", True),
        ("os.environ.setdefault('TORCH_HOME', '')", True),
        ("os.environ['GITHUB_TOKEN']", False),
        ("os.environ.get('GITHUB_TOKEN')", False),
        ("os.environ.items()", False),
        ("os.environ.get(name)", False),
        ("os.getenv('TORCH_HOME')", False),
        ("dict(os.environ)", False),
    ],
)
def test_a_plug_in_may_touch_its_own_variables_only(code: str, allowed: bool) -> None:
    """By name, so that the test can see which."""
    module = Module("onnx_gate.frameworks.torch.plugin", ast.parse(code), is_package=False)
    assert (set(_reads_environment(module)) <= _own_variables(module)) is allowed


def _reads_environment(module: Module) -> list[ast.AST]:
    names = {"environ", "environb", "getenv", "getenvb"}
    return [
        node
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Attribute) and ast.unparse(node.value) == "os" and node.attr in names)
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and names & {alias.name for alias in node.names})
    ]


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
