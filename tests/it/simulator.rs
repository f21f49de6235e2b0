//! The simulator (FAULT-3), through its command.

use std::process::{Command, Output, Stdio};

fn simulate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    command.arg("simulate").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Each seed is run twice, some with faults and one without, and is the same to the byte.
#[test]
fn the_same_seed_runs_the_same_and_nothing_is_found_fault_3() {
    let output = simulate(&["--seed", "1", "--seeds", "4", "--for", "2m", "--meta"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = text(&output);
    assert_eq!(said.lines().filter(|line| line.contains(": 0 violations")).count(), 4, "{said}");
    assert!(said.lines().any(|line| !line.contains(" 0 faults")), "{said}");
}

/// A failing seed is told with the fewest steps that were found to do, its trace and the rule.
#[test]
fn a_failing_seed_is_made_smaller_fault_3() {
    let output = simulate(&["--break", "remove-before-stop", "--seed", "1", "--for", "1m"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let steps = said.split("fails with these steps alone:").nth(1).expect(&said);
    let left = steps.lines().filter(|line| line.starts_with("  ") && line.contains(" { ")).count();
    assert!(steps.contains("VIOLATION of deletion rights:") && left > 0, "{said}");
}

#[test]
fn an_unknown_mistake_is_refused_fault_3() {
    let output = simulate(&["--break", "nothing"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("no mistake \"nothing\""), "{}", text(&output));
    let list = simulate(&["--break", "list"]);
    assert!(list.status.success() && text(&list).lines().count() >= 12, "{}", text(&list));
}
