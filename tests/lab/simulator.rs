//! The simulator (FAULT-3), through its command.

use std::process::{Command, Output, Stdio};

fn simulate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium-lab"));
    command.arg("simulate").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Each seed is run twice, one of them without faults at first, and is the same to the byte.
#[test]
fn the_same_seed_runs_the_same_and_nothing_is_found_fault_3() {
    let output = simulate(&["--seed", "1", "--seeds", "4", "--duration", "4m", "--verify-determinism"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let printed = text(&output);
    assert_eq!(printed.lines().filter(|line| line.contains(": 0 violations")).count(), 4, "{printed}");
    assert!(!printed.contains(" 0 faults"), "{printed}");
    assert_eq!(
        printed.matches(", 4m0s").count(),
        4,
        "the time that passes is the time that was asked for: {printed}"
    );
}

/// The oldest events expire while the simulation rests; that is no work without end.
#[test]
fn a_simulation_of_more_than_an_hour_rests_while_events_expire_fault_3() {
    let output = simulate(&["--seed", "1", "--duration", "65m", "--no-shrink"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

/// A failing seed is reported with the smallest sequence of steps that still fails, its trace and the rule.
#[test]
fn a_failing_seed_is_made_smaller_fault_3() {
    let output = simulate(&["--mistake", "remove-before-stop", "--seed", "1", "--duration", "2m"]);
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let steps = printed.split("fails with these steps alone:").nth(1).expect(&printed);
    let left = steps.lines().filter(|line| line.starts_with("  ") && line.contains(" { ")).count();
    assert!(steps.contains("VIOLATION of deletion rights:") && left > 0, "{printed}");
}

#[test]
fn an_unknown_mistake_is_refused_fault_3() {
    let output = simulate(&["--mistake", "nothing"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("unknown mistake \"nothing\""), "{}", text(&output));
    let list = simulate(&["--mistake", "list"]);
    assert!(list.status.success() && text(&list).lines().count() >= 12, "{}", text(&list));
}

/// Each mistake is found by the rule that it breaks, within this number of seeds. Rare ones begin at a seed that finds
/// them early.
macro_rules! mistakes_are_found {
    ($($test:ident: $name:literal by $rule:literal $(from seed $seed:literal)?;)*) => {
        $(
            #[test]
            fn $test() {
                let first: &[&str] = &[$("--seed", $seed)?];
                let arguments = ["--mistake", $name, "--seeds", "32", "--duration", "7m", "--no-shrink"];
                let output = simulate(&[first, &arguments].concat());
                let printed = text(&output);
                assert_eq!(output.status.code(), Some(1), "{printed}");
                assert!(printed.contains(concat!("VIOLATION of ", $rule, ":")), "{printed}");
            }
        )*

        #[test]
        fn every_mistake_has_its_test_fault_3() {
            let list = simulate(&["--mistake", "list"]);
            assert_eq!(text(&list).lines().collect::<Vec<_>>(), [$($name),*]);
        }
    };
}

mistakes_are_found! {
    a_forced_deletion_is_found_fault_3: "force-delete" by "deletion rights" from seed "5";
    a_removal_before_the_stop_is_found_fault_3: "remove-before-stop" by "deletion rights";
    an_early_acknowledgement_is_found_fault_3: "acknowledge-before-sync" by "durability";
    a_lost_write_is_found_fault_3: "lose-synced-write" by "durability";
    a_reused_revision_is_found_fault_3: "reuse-revision" by "durability";
    a_dropped_event_is_found_fault_3: "drop-watch-event" by "watch guarantees";
    a_repeated_event_is_found_fault_3: "repeat-watch-event" by "watch guarantees";
    a_bookmark_ahead_is_found_fault_3: "bookmark-ahead" by "watch guarantees";
    a_lost_update_is_found_fault_3: "lost-update" by "linearizable objects" from seed "7";
    a_forgotten_expectation_is_found_fault_3: "forget-expectation" by "rollout bounds" from seed "7";
    a_forgotten_retry_is_found_fault_3: "forget-retry" by "everything ends" from seed "3";
    an_ignored_budget_is_found_fault_3: "ignore-budget" by "budgets";
    an_ignored_quota_is_found_fault_3: "ignore-quota" by "quotas";
    an_ignored_surge_is_found_fault_3: "ignore-surge" by "rollout bounds";
    ignored_unavailability_is_found_fault_3: "ignore-unavailable" by "rollout bounds" from seed "11";
    orphans_left_behind_are_found_fault_3: "keep-orphans" by "everything ends";
    a_fence_before_death_is_found_fault_3: "fence-before-death" by "fencing";
    a_forgotten_back_off_is_found_fault_3: "forget-back-off" by "everything ends";
    a_key_that_never_rests_is_found_fault_3: "never-rest" by "everything ends";
    a_selection_that_keeps_what_left_is_found_fault_3: "keep-selected" by "watch guarantees";
    torn_pages_are_found_fault_3: "tear-pages" by "watch guarantees";
    an_ignored_prohibition_is_found_fault_3: "ignore-forbid" by "one Job at a time";
}
