//! `podium-lab torture` (FAULT-3): a short run on real processes, and mistakes that it must find.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;

use crate::processes::{ChildGuard, HostDirectory, wait_for};

fn torture(place: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium-lab"));
    command.arg("torture").arg("--data-dir").arg(place).args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The directory of a torture: its content is removed with it, even if the test fails.
fn place(home: &HostDirectory) -> PathBuf {
    home.path().join("place")
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn a_short_torture_finds_nothing_and_leaves_nothing_fault_3() {
    let home = HostDirectory::new();
    let output = torture(&place(&home), &["--seed", "7", "--duration", "6s"]);
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains(" 0 violations") && !printed.contains("\n0 faults"), "{printed}");
    assert_eq!(entries(&place(&home)), 0, "{printed}");
}

/// After a violation the torture's files stay, and their path is printed.
#[test]
fn each_mistake_is_found_fault_3() {
    for (mistake, rule, words) in [
        ("second-holder", "SAFE-1", "found the identity held by"),
        ("two-at-once", "SAFE-1", "two at once"),
        ("lost-write", "SAFE-2", "never-made was acknowledged"),
        ("left-behind", "SAFE-7", "a process remains"),
    ] {
        let home = HostDirectory::new();
        let output = torture(&place(&home), &["--seed", "3", "--duration", "1s", "--mistake", mistake]);
        let printed = text(&output);
        assert_eq!(output.status.code(), Some(1), "{mistake}: {printed}");
        let found = printed.lines().find(|line| line.contains(&format!("VIOLATION of {rule}: ")));
        assert!(printed.contains(words) && found.is_some(), "{mistake}: {printed}");
        let place = place(&home).canonicalize().unwrap();
        assert!(printed.contains(&format!("logs and data: {}", place.display())), "{mistake}: {printed}");
        assert!(entries(&place.join("identities")) > 0 && entries(&place.join("logs")) > 0);
    }
}

/// Mistakes of the control plane, as the simulator has them. Faults end when a rule was broken.
#[test]
fn mistakes_of_the_product_are_found_fault_3() {
    for (mistake, seed, rule) in
        [("repeat-watch-event", "3", "SAFE-11"), ("remove-before-stop", "5", "SAFE-1")]
    {
        let home = HostDirectory::new();
        let output = torture(&place(&home), &["--seed", seed, "--duration", "5m", "--mistake", mistake]);
        let printed = text(&output);
        assert_eq!(output.status.code(), Some(1), "{mistake}: {printed}");
        assert!(printed.contains(&format!("VIOLATION of {rule}: ")), "{mistake}: {printed}");
    }
}

/// SIGINT ends it cleanly, with the verdict so far.
#[test]
fn a_torture_that_is_interrupted_tells_its_verdict_fault_3() {
    let home = HostDirectory::new();
    let (place, log) = (place(&home), home.path().join("said"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium-lab"));
    command.args(["torture", "--seed", "3", "--duration", "1h", "--data-dir"]).arg(&place);
    command.stdin(Stdio::null()).stdout(std::fs::File::create(&log).unwrap());
    let mut child = ChildGuard::spawn(&mut command);
    let text = || std::fs::read_to_string(&log).unwrap();
    wait_for("everything to run", || text().contains("everything runs").then_some(()));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child.0), Signal::INT).unwrap();
    let status = child.0.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{}", text());
    assert!(text().contains("stopped by a signal") && text().contains(" 0 violations"), "{}", text());
    assert_eq!(entries(&place), 0, "{}", text());
}

#[test]
fn a_directory_that_is_not_empty_is_refused_fault_3() {
    let home = HostDirectory::new();
    let place = place(&home);
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("mine"), "").unwrap();
    let output = torture(&place, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("is not empty"), "{}", text(&output));
    assert_eq!(entries(&place), 1);
    assert_eq!(torture(&place, &["--duration", "soon"]).status.code(), Some(2));
}
