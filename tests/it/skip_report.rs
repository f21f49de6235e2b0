//! A test run lists its skipped tests at the end, and fails if none may be skipped (see `needs`).

use std::process::{Command, Output};

use crate::needs::needs;

/// Has only the requirement that `PODIUM_TEST_WITHOUT` removes.
#[test]
fn example() {
    needs!(Kubectl);
}

/// Runs `example` in a separate process.
fn run(variables: &[(&str, &str)]) -> (Output, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "skip_report::example"]);
    command.env_remove("PODIUM_TEST_WITHOUT").env_remove("PODIUM_TEST_REQUIRE");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

/// Every skipped test is reported, also when the output is captured.
#[test]
fn skipped_tests_are_listed_after_the_closing_line_of_libtest() {
    let (output, text) = run(&[("PODIUM_TEST_WITHOUT", "kubectl")]);
    assert!(output.status.success(), "{text}");
    let closing = text.split_once("test result: ok. 1 passed").map(|(_, closing)| closing).expect(&text);
    assert_eq!(closing.lines().last(), Some("1 skipped: no kubectl"), "{text}");
}

/// A tool that `.ci/run` requires must be installed.
#[test]
fn a_missing_requirement_fails_the_test_if_it_must_be_installed() {
    let (output, text) = run(&[("PODIUM_TEST_WITHOUT", "kubectl"), ("PODIUM_TEST_REQUIRE", "root,kubectl")]);
    assert_eq!(output.status.code(), Some(101), "{text}");
    assert!(text.contains("no kubectl, and PODIUM_TEST_REQUIRE says that it is here"), "{text}");
    assert!(!text.contains("skipped:"), "{text}");
}

/// The PATH decides, as it does in a shell.
#[test]
fn an_empty_path_has_no_kubectl() {
    let (output, text) = run(&[("PATH", "/nonexistent")]);
    assert!(output.status.success() && text.ends_with("1 skipped: no kubectl\n"), "{text}");
}
