"""How ONNX Runtime's sessions are set up, as the manifest has it."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from onnx_gate.manifest.schema.section import Section, Text, refuse
from onnx_gate.records.asked import FEWEST_REPEATS, LatencySpec

LONGEST_CONFIG = 2048
_OURS = {
    "session.record_ep_graph_assignment_info": "it is always on: placement is proven with it",
    "session.enable_profiling": "placement is proven with it",
    "session.intra_op_num_threads": "write `intra_op_threads`",
    "session.inter_op_num_threads": "write `inter_op_threads`",
    "session.graph_optimization_level": "write `optimization`",
    "session.use_deterministic_compute": "write `deterministic`",
}
_KNOWN = (
    *("ep.context_embed_mode", "ep.context_enable", "ep.context_file_path", "memory.enable_memory_arena_shrinkage"),
    *("mlas.qnbit.force_fp32", "mlas.use_lut_gemm", "optimization.disable_specified_optimizers"),
    *("optimization.enable_cast_chain_elimination", "optimization.enable_gelu_approximation"),
    *("optimization.minimal_build_optimizations", "session.disable_aot_function_inlining"),
    *("session.disable_cpu_ep_fallback", "session.disable_double_qdq_remover", "session.disable_prepacking"),
    *("session.disable_qdq_constant_folding", "session.disable_quant_qdq", "session.dynamic_block_base"),
    *("session.enable_dq_matmulnbits_fusion", "session.enable_quant_qdq_cleanup", "session.force_spinning_stop"),
    *("session.graph_optimizations_loop_level", "session.inter_op.allow_spinning", "session.intra_op.allow_spinning"),
    *("session.intra_op_thread_affinities", "session.layer_assignment_settings", "session.load_model_format"),
    *("session.optimized_model_external_initializers_file_name", "session.qdq_matmulnbits_accuracy_level"),
    *("session.qdqisint8allowed", "session.save_model_format", "session.set_denormal_as_zero"),
    *("session.strict_shape_type_inference", "session.use_device_allocator_for_initializers"),
    *("session.use_env_allocators", "session.use_ort_model_bytes_directly", "session.x64quantprecision"),
    "session.use_ort_model_bytes_for_initializers",
)
"""Entries of onnxruntime 1.31: what is nearly one of them is probably misspelt, and the runtime would ignore it."""
_NEAR = 0.88


def option_text(value: Any) -> Any:
    """A number or a truth as the text that ONNX Runtime takes."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value) if isinstance(value, int) else value


OptionText = Annotated[str, BeforeValidator(option_text, json_schema_input_type=str | int | float | bool)]


def _check_entries(entries: dict[str, str]) -> dict[str, str]:
    for name, value in entries.items():
        if name in _OURS:
            raise refuse(f"{name!r} is set by onnx-gate", "entries that it leaves to you", _OURS[name])
        if len(name) > LONGEST_CONFIG or len(value) > LONGEST_CONFIG:
            raise refuse("", f"names and values of at most {LONGEST_CONFIG} characters")
    return entries


Threads = Annotated[int, Field(ge=1, le=1024)]


class Session(Section):
    """Options of a session; what is left out is onnx-gate's own choice."""

    optimization: Literal["disabled", "basic", "extended", "layout", "all"] | None = Field(
        None, description="graph optimisation level; all by default"
    )
    intra_op_threads: Threads | None = Field(None, description="threads inside an operator; 1 by default")
    inter_op_threads: Threads | None = Field(
        None, description="operators side by side; 1 by default, more makes the execution parallel"
    )
    deterministic: bool | None = Field(None, description="deterministic compute, where the provider has it")
    config: Annotated[dict[Text, OptionText], AfterValidator(_check_entries)] = Field(
        default_factory=dict, description="session config entries, by ONNX Runtime's names"
    )

    @property
    def doubtful_entries(self) -> dict[str, tuple[str, str]]:
        """Message and fix for each entry of `config` that is misspelt, or newer than our list."""
        near = {name: difflib.get_close_matches(name, _KNOWN, n=1, cutoff=_NEAR) for name in self.config}
        return {
            name: (f"onnx-gate knows no entry {name!r} of ONNX Runtime", f"did you mean {meant[0]!r}?")
            for name, meant in near.items()
            if meant and name not in _KNOWN
        }


class Latency(Section):
    """How latency is measured."""

    repeats: Annotated[int, Field(ge=FEWEST_REPEATS, le=10_000)] = Field(
        LatencySpec.repeats, description="timed runs of each side at each batch size, at most"
    )
    seconds: Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)] = Field(
        LatencySpec.seconds, description="for each side at each batch size; five runs are made in any case"
    )


def _expand(value: Any) -> Any:
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, dict):
        raise refuse("", "true, false, or a mapping such as {repeats: 50, seconds: 0.3}")
    return value


LatencyChoice = Annotated[Latency | None, BeforeValidator(_expand, json_schema_input_type=bool | Latency)]
Speedup = Annotated[float, Field(gt=0, allow_inf_nan=False)]
