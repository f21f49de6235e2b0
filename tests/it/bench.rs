//! `podium bench` measures, says how each figure stands, and leaves nothing behind (PERF-1, CLI-6).

use std::process::Command;

use crate::instance::Home;

#[test]
fn a_bench_prints_each_figure_beside_another_perf_1() {
    let home = Home::new();
    let temporary = home.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let bench = |suite: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
        command.args(["bench", suite]).env("TMPDIR", &temporary).output().unwrap()
    };
    let output = bench("start");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let row = |what: &str| text.lines().find(|line| line.starts_with(what)).unwrap_or_default().to_string();
    for what in ["start to 3 nodes Ready", "resident memory, idle"] {
        let row = row(what);
        assert!(row.contains("k8s 1.20: ") && row.contains('x'), "{what}: {text}");
        assert!(row.ends_with(" better") || row.ends_with(" worse"), "{what}: {text}");
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left");
    assert_eq!(bench("nonsense").status.code(), Some(2));
}
