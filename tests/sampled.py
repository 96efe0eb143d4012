"""What runs long stays out of `make test`, or leaves a seeded sample in it.

`make coverage` runs it where its lines are counted (`covered.py`), and `make test-models` all else of it.

One row for each: a test, a class or a file, and how many of its cases stay. What is sampled has many cases that go
through the same lines (payloads, faults, sizes); what stays out as a whole takes seconds for one fact.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest

SEED = 11
STAY: dict[str, int] = {
    "cache/test_changes.py::test_others_are_still_hits": 1,
    "cache/test_changes.py::test_what_changed_is_a_miss": 5,
    "cache/test_changes.py::test_what_did_not_change_is_a_hit": 2,
    "cache/test_damage.py::test_a_head_that_nobody_wrote": 1,
    "cache/test_damage.py::test_a_head_that_somebody_changed": 1,
    "cache/test_damage.py::test_an_end_that_is_missing": 2,
    "cache/test_damage.py::test_another_file": 1,
    "cache/test_damage.py::test_events_that_make_no_pass": 0,
    "cache/test_damage.py::test_one_bit": 6,
    "cache/test_run.py::test_a_connection": 0,
    "cache/test_run.py::test_a_module_of_packages": 0,
    "cache/test_run.py::test_a_variant_depends_on_what_its_model_read": 0,
    "cache/test_run.py::test_one_that_changed_runs": 0,
    "cache/test_run.py::test_references_go_without": 0,
    "cache/test_run.py::test_two_runs_at_once": 0,
    "cache/test_run.py::test_what_is_never_kept": 0,
    "contract/test_limits.py::test_a_row_is_all_that_a_new_limit_needs": 0,
    "e2e/test_causes_page.py": 0,
    "e2e/test_examples.py::test_an_example_ends_with_its_exit_code[boosters-0]": 0,
    "e2e/test_examples.py::test_an_example_ends_with_its_exit_code[weak-inputs-0]": 0,
    "e2e/test_first_manifests.py": 0,
    "first_manifest/test_init.py::test_a_file_that_takes_too_long_costs_that_file": 0,
    "first_manifest/test_init.py::test_ten_thousand_files": 0,
    "first_manifest/test_init.py::test_very_many_models_are_cut_with_a_word": 0,
    "frameworks/test_landmarks.py::test_a_node_says_which_line_it_comes_from": 0,
    "frameworks/test_landmarks.py::test_every_tensor_of_a_file_that_is_the_source": 0,
    "frameworks/test_landmarks.py::test_layers_are_named_by_the_path_of_their_names": 0,
    "frameworks/test_landmarks.py::test_tensors_of_the_exported_file_have_their_names_and_values": 0,
    "frameworks/test_sklearn_imports.py::test_skops_does_not_import_pytorch": 0,
    "frameworks/test_torch_operators.py::test_a_translation_stays_in_the_export_that_it_was_given_for": 0,
    "fuzz/test_onnx_files.py::test_seeds_are_models_of_every_kind": 0,
    "fuzz/test_results.py::test_a_lie_about_earlier_runs_is_refused": 3,
    "fuzz/test_results.py::test_seeds_are_parts_that_merge": 0,
    "fuzz/test_runner.py::test_a_case_is_the_same_wherever_it_is_drawn": 1,
    "fuzz/test_runner.py::test_a_process_that_dies_or_hangs_costs_one_case": 1,
    "gate/test_rules.py::test_a_run_of_some_models_says_nothing": 0,
    "gate/test_rules.py::test_merge_says_it_of_all_parts": 0,
    "gate/test_rules.py::test_merge_takes_a_part_that_says_it_itself": 0,
    "gate/test_trust.py::test_beside_an_outer_checkout_they_are_refused": 0,
    "gate/test_trust.py::test_beside_credentials_the_workflow_may_allow_them": 0,
    "gate/test_trust.py::test_nothing_of_them_is_loaded": 0,
    "gate/test_trust.py::test_the_way_out_fits_what_was_found": 0,
    "github/test_baseline.py::test_a_file_that_is_no_baseline_is_one_warning": 1,
    "github/test_baseline.py::test_a_path_that_leads_to_no_result_is_one_warning": 1,
    "github/test_baseline.py::test_a_strange_baseline_changes_nothing_but_what_is_said_of_it": 1,
    "github/test_baseline.py::test_a_forks_branch_of_the_same_name_is_no_baseline": 0,
    "github/test_baseline.py::test_shards_are_compared_when_they_are_merged": 0,
    "github/test_baseline.py::test_whatever_fails_is_one_warning": 2,
    "github/test_published.py::test_a_comment_that_fails_changes_nothing": 2,
    "github/test_published.py::test_an_old_verdict_does_not_stand_for_a_run_that_did_not_come_about": 1,
    "github/test_published.py::test_what_a_model_prints_is_shown_and_commands_nobody": 1,
    "onnx_files/test_domain.py::test_a_transformer_with_positions_and_a_mask": 0,
    "processes/test_channel.py::test_an_event_that_cannot_be_booked_is_its_models_error": 1,
    "processes/test_channel.py::test_the_parent_stays_small_beside_a_single_one": 0,
    "processes/test_faults.py::test_a_cancelled_run_writes_what_is_known": 1,
    "processes/test_faults.py::test_a_server_that_hangs_is_given_up": 0,
    "processes/test_faults.py::test_a_server_that_is_killed_is_replaced": 0,
    "processes/test_faults.py::test_an_end_that_nobody_reports_is_waited_for_with_patience": 1,
    "processes/test_faults.py::test_where_fork_is_not_to_be_had_processes_start_cold": 0,
    "processes/test_seclusion.py::test_a_variable_that_names_the_home_does_not_open_it": 2,
    "processes/test_seclusion.py::test_credentials_of_every_checkout_are_out_of_reach": 2,
    "processes/test_strays.py::test_what_a_model_left_is_gone_before_its_end_is_reported": 1,
    "processes/test_strays.py::test_what_the_last_model_left_does_not_outlive_the_gate": 1,
    "references/test_checked.py::test_a_contract_that_we_would_not_write_is_an_error": 2,
    "references/test_checked.py::test_a_file_that_the_factory_reads_and_that_changed_is_found": 1,
    "references/test_checked.py::test_files_that_a_model_claims_to_have_read_are_looked_at_with_care": 0,
    "reports/test_checks.py::test_very_many_checks_of_one_model": 0,
    "reports/test_checks.py::test_very_many_models_share_a_page": 0,
    "reports/test_comment.py::test_two_thousand_models": 1,
    "reports/test_comment.py::test_words_stay_words": 3,
    "reports/test_history.py::test_two_thousand_models_with_fifty_runs_stay_within_the_page": 0,
    "reports/test_hostile.py::test_text_stays_text": 8,
    "reports/test_hostile.py::test_text_stays_text_in_all_places_at_once": 4,
    "reports/test_markdown.py::test_two_thousand_models_fit": 0,
    "reports/test_page.py::test_a_page_of_two_hundred_models_and_two_thousand_checks_is_small": 0,
    "repository/test_credentials.py::test_no_configuration_takes_long": 1,
    "repository/test_secrets.py::test_no_text_takes_long": 4,
    "shards/test_resume.py::test_an_interrupted_run_goes_on_where_it_stopped": 0,
    "strength/test_sources.py::test_a_torch_export_with_its_weights_beside_it": 0,
    "strength/test_sources.py::test_a_wrong_model_copies_what_it_changes_and_nothing_else": 0,
    "strength/test_sources.py::test_boosters": 0,
    "strength/test_survivors.py::TestTable::test_a_table_that_a_sub_graph_reads_is_not_said_to_be_unread": 0,
    "strength/test_survivors.py::TestTable::test_rows_outside_of_the_range": 0,
    "strength/test_survivors.py::test_a_size_that_is_always_the_same": 0,
    "trial/test_reused.py::test_answers_that_share_memory_with_the_source_are_copied": 0,
    # All models of such a file run together.
    "calibration/test_calibrate.py": 0,
    "cli/test_requirements.py": 0,
    "frameworks/test_onnx_custom_ops.py": 0,
    "frameworks/test_sklearn_teaching.py": 0,
    "frameworks/test_torch_teaching.py": 0,
    "place/test_branches.py": 0,
    "place/test_converted.py": 0,
    "place/test_networks.py": 0,
    "place/test_optimizer.py": 0,
    "place/test_own_values.py": 0,
    "processes/test_strength.py": 0,
    "references/test_strength.py": 0,
    "references/test_travel.py": 0,
    "repro/test_scripts.py": 0,
    "shards/test_providers.py": 0,
    "shards/test_strength.py": 0,
    "strength/test_bounds.py": 0,
    "triage/test_real_causes.py": 0,
    "trial/test_decisions.py": 0,
    "trial/test_latency.py": 0,
    "trial/test_left_out.py": 0,
    "trial/test_rows.py": 0,
    "trial/test_sentinels.py": 0,
    "trial/test_sizes.py": 0,
    "trial/test_teaching.py": 0,
    "trial/test_unrounded.py": 0,
    "trial/test_variant_limits.py": 0,
    "trial/test_variants.py": 0,
    "worker/test_weights.py": 0,
}


def mark_long(items: Iterable[pytest.Item]) -> None:
    """Give the mark `long` to all cases that don't stay, the same ones in every process."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        for name in _names(item.nodeid.removeprefix("tests/")):
            cases[name].append(item)
    for name, stays in STAY.items():
        found = sorted(cases.get(name, ()), key=lambda item: item.nodeid)
        kept = random.Random(f"{SEED} {name}").sample(found, min(stays, len(found)))
        for item in found:
            if item not in kept:
                item.add_marker("long")


def _names(case: str) -> Iterator[str]:
    """All rows that would mean it: it alone, its test, its file."""
    test = case.partition("[")[0]
    yield from dict.fromkeys((case, test, test.partition("::")[0]))
