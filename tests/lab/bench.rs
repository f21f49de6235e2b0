//! `podium-lab bench` measures, compares each figure, and leaves nothing behind (PERF-1, CLI-6).

use std::process::Command;

use crate::processes::HostDirectory;

#[test]
fn a_bench_prints_each_figure_beside_another_perf_1() {
    let home = HostDirectory::new();
    let temporary = home.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let bench = |suite: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_podium-lab"));
        command.args(["bench", suite]).env("TMPDIR", &temporary).output().unwrap()
    };
    let output = bench("start");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("recorded = Kubernetes 1.20"), "{text}");
    let row = |what: &str| text.lines().find(|line| line.starts_with(what)).unwrap_or_default().to_string();
    for what in ["start to 3 nodes Ready", "resident memory, idle"] {
        let row = row(what);
        // Recorded figures are of another machine and time: they are shown without a verdict.
        assert!(
            row.contains("recorded ") && !row.contains("better") && !row.contains("worse"),
            "{what}: {text}"
        );
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left");
    assert_eq!(bench("nonsense").status.code(), Some(2));
}

/// The soak test runs all its steps, prints a row for each sample and its verdict, and removes its data.
#[test]
fn a_soak_prints_what_is_taken_and_whether_it_grew_perf_1() {
    let home = HostDirectory::new();
    let temporary = home.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium-lab"));
    command.args(["bench", "soak", "--minutes", "0.1"]).env("TMPDIR", &temporary);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    // So short a run may end before all caches are filled: either verdict is valid.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}{stderr}");
    let mut lines = text.lines();
    assert!(lines.next().unwrap().contains("serve MiB  hosts MiB  descriptors  threads"), "{text}");
    let rows: Vec<Vec<f64>> =
        lines.map_while(|line| line.split_whitespace().map(|field| field.parse().ok()).collect()).collect();
    // The number of rows depends on the machine, because each row takes time itself.
    assert!(!rows.is_empty() && rows.iter().all(|row| row.len() == 8), "{text}");
    assert!(rows.windows(2).all(|pair| pair[0][7] <= pair[1][7]), "revisions are given out: {text}");
    for done in ["events", "configmap updates"] {
        let (before, _) = text.split_once(&format!(" {done} (")).expect(done);
        assert_ne!(before.rsplit([' ', '\n']).next(), Some("0"), "{done}: {text}");
    }
    let verdicts: Vec<&str> =
        text.lines().filter(|line| line.starts_with("flat  ") || line.starts_with("GREW  ")).collect();
    assert_eq!(verdicts.len(), 5, "{text}{stderr}");
    assert_eq!(output.status.success(), verdicts.iter().all(|line| line.starts_with("flat")), "{stderr}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left");
    let none =
        Command::new(env!("CARGO_BIN_EXE_podium-lab")).args(["bench", "soak", "--minutes", "0"]).output();
    assert_eq!(none.unwrap().status.code(), Some(2));
}

/// Every figure of the console beside its goal, here for a small cluster.
#[test]
fn the_console_is_measured_beside_its_goals_con_1() {
    let home = HostDirectory::new();
    let temporary = home.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium-lab"));
    command.args(["bench", "console", "--nodes", "3", "--pods", "8,12", "--events", "30"]);
    command.args(["--changes", "20", "--keys", "12", "--seconds", "1"]).env("TMPDIR", &temporary);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for (what, beside) in [
        ("console: idle, 3 nodes that heartbeat ", "goal 0.30"),
        ("  with their table open ", "goal 0.30"),
        ("console: memory, each of 8 pods ", "goal 3.00"),
        ("console: memory, each of 12 pods ", "goal 3.00"),
        ("console: start to the first of 12 pods ", "goal 300"),
        ("console: memory, each of 30 events ", ""),
        ("console: key to paint, p99, 30 events ", "goal 16.0"),
        ("  the slowest table to open ", ""),
        ("  changes meanwhile ", ""),
    ] {
        let row =
            text.lines().find(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{what}: {text}"));
        assert!(row.contains(beside), "{row}");
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left");
    for wrong in [["--pods", "0"], ["--nodes", "0"], ["--seconds", "-1"], ["--console", "/nowhere"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_podium-lab"))
            .args(["bench", "console", "--pods", "1"])
            .args(wrong)
            .env("TMPDIR", &temporary)
            .output();
        assert!(!output.unwrap().status.success(), "{wrong:?}");
    }
}
