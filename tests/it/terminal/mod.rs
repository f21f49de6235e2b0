//! The built binary in a real terminal: a test types keys and reads the screen (CON-1, CLI-5, CLI-7).

mod node_shells;
pub(crate) mod pty;
mod transfers;

use std::process::Command;

use crate::instance::{DataDir, wait_for};
use pty::Terminal;

/// Command lines of processes that hold this text.
fn processes_with(text: &str) -> usize {
    let own = std::process::id().to_string();
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_str() != Some(own.as_str()))
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|command| {
            let command = String::from_utf8_lossy(command);
            command.contains(text) && !command.starts_with("sh\0-c")
        })
        .count()
}

fn podium(home: &DataDir) -> String {
    let (binary, data) = (env!("CARGO_BIN_EXE_podium"), home.data_dir());
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/sample-manifests");
    format!("{binary} --ephemeral --listen 127.0.0.1:0 --data-dir {} -f {samples}", data.display())
}

#[test]
fn the_console_comes_up_follows_keys_and_gives_the_terminal_back_con_1() {
    let home = DataDir::new();
    let editor = r#"EDITOR="sed -i s/replicas:.1/replicas:\\ 2/""#;
    let terminal = Terminal::run(&format!("{editor} {}; echo exit=$?; exec cat", podium(&home)));
    terminal.shows("3 nodes ● 3");
    terminal.keys(&[":"]);
    terminal.keys(&["nodes", "Enter"]);
    terminal.shows("node-2");
    terminal.keys(&["?"]);
    terminal.shows("Keys");
    terminal.keys(&["Escape"]);
    // Keys have no effect if the window is too small to draw: this one has to arrive before.
    terminal.shows("node-2");
    // The window becomes too small to draw, and large again. A window that was briefly resized has lost the content
    // outside of the smaller size, although its final size is the one last drawn.
    terminal.resize(40, 8);
    wait_for("word of the size", || (!terminal.screen().contains("node-2")).then_some(()));
    terminal.resize(100, 30);
    terminal.shows("node-2");
    // Redraws while it reads keys, and after another program had the terminal (CON-11).
    terminal.keys(&["C-r"]);
    terminal.keys(&[":"]);
    terminal.keys(&["deployments", "Enter"]);
    terminal.shows("chatter");
    terminal.keys(&["g", "e"]);
    terminal.shows("replicas: 1");
    terminal.keys(&["C-o"]);
    terminal.shows("+   replicas: 2");
    // There is nothing to save until the server has accepted it.
    terminal.shows("the server would accept this");
    terminal.keys(&["Enter"]);
    terminal.shows("edit Deployment default/chatter: spec.replicas");
    // The editor, to which ctrl-c means something else, closes a moment after that.
    terminal.shows("UP-TO-DATE");
    terminal.keys(&["C-c"]);
    terminal.keys(&["C-c"]);
    terminal.shows("exit=0");
    // The changes are in the journal, among the files of this terminal's user.
    assert!(terminal.config_dir().join("podium/journal").is_dir());
    terminal.assert_restored();
    // Before the shell that runs the editor becomes `cat`, its command line has the directory.
    let data_dir = home.data_dir();
    wait_for("nothing to be left", || (processes_with(data_dir.to_str().unwrap()) == 0).then_some(()));
}

#[test]
fn the_default_theme_follows_the_background_of_the_terminal_con_20() {
    let home = DataDir::new();
    let terminal = Terminal::on_background(true, &format!("exec {}", podium(&home)));
    terminal.shows("3 nodes ● 3");
    let light = terminal.background();
    // The terminal has become dark by the time the focus returns.
    terminal.set_light(false);
    terminal.keys(&["\u{1b}[O", "\u{1b}[I"]);
    let dark = wait_for("a dark ground", || Some(terminal.background()).filter(|ground| *ground != light));
    terminal.keys(&[":"]);
    terminal.keys(&["theme dusk", "Enter"]);
    let picked =
        wait_for("the picked theme", || Some(terminal.background()).filter(|ground| *ground != dark));
    // The selected theme stays.
    terminal.set_light(true);
    terminal.keys(&["\u{1b}[O", "\u{1b}[I", ":"]);
    terminal.keys(&["nodes", "Enter"]);
    terminal.shows("node-2");
    assert_eq!(terminal.background(), picked);
}

#[test]
fn text_selected_with_the_mouse_is_copied_to_the_clipboard_con_20() {
    let home = DataDir::new();
    let terminal = Terminal::run(&format!("exec {}", podium(&home)));
    terminal.shows("3 nodes ● 3");
    terminal.keys(&[":"]);
    terminal.keys(&["nodes", "Enter"]);
    terminal.shows("node-2");
    let screen = terminal.screen();
    let (row, line) = screen.lines().enumerate().find(|(_, line)| line.contains("node-2")).unwrap();
    let column = line[..line.find("node-2").unwrap()].chars().count() + 1;
    // The button goes down, moves over the name and comes up, in SGR's coordinates from 1.
    let mouse = |kind: u32, x: usize, end: char| format!("\u{1b}[<{kind};{x};{}{end}", row + 1);
    terminal.keys(&[&mouse(0, column, 'M')]);
    terminal.keys(&[&mouse(32, column + 3, 'M')]);
    terminal.keys(&[&mouse(32, column + 5, 'M')]);
    terminal.keys(&[&mouse(0, column + 5, 'm')]);
    terminal.shows("copied");
    wait_for("the clipboard", || (terminal.clipboard().as_deref() == Some("node-2")).then_some(()));
}

/// Regression: the answer took effect on a tick of the loop, which dropped it.
#[test]
fn a_console_with_a_background_task_quits_by_a_letter_con_6() {
    let home = DataDir::new();
    let server = Terminal::run(&format!("exec {}", podium(&home)));
    server.shows("3 nodes ● 3");
    let kubeconfig = home.data_dir().join("kubeconfig");
    let console = format!("{} console --kubeconfig {}", env!("CARGO_BIN_EXE_podium"), kubeconfig.display());
    let terminal = Terminal::run(&format!("{console}; echo exit=$?; exec cat"));
    terminal.shows("3 nodes ● 3");
    terminal.keys(&[":"]);
    terminal.keys(&["pods", "Enter"]);
    terminal.shows("in-zone-a");
    terminal.keys(&["/"]);
    terminal.keys(&["in-zone-a", "Enter"]);
    terminal.until(&["a"], "<ctrl-]>detach");
    terminal.until(&["C-]"], "⧗");
    terminal.until(&["C-c"], "1 background task will be stopped");
    terminal.until(&["y"], "exit=0");
}

#[test]
fn a_window_that_is_small_for_a_moment_is_drawn_whole_con_1() {
    let home = DataDir::new();
    let terminal = Terminal::run(&format!("exec {}", podium(&home)));
    terminal.shows("3 nodes ● 3");
    terminal.shows("╭ Events");
    terminal.while_stopped(|| {
        terminal.resize(40, 4);
        assert!(!terminal.screen().contains("╭ Events"), "{}", terminal.screen());
        // Input and the change of size arrive together.
        terminal.keys(&["é"]);
        terminal.resize(100, 30);
    });
    terminal.shows("╭ Events");
}

#[test]
fn a_broken_manifest_leaves_the_terminal_as_it_was_and_says_where_cli_6() {
    let home = DataDir::new();
    let manifest = home.path("broken.yaml");
    for (text, expected) in [
        ("apiVersion: v1\nkind: Pod\nmetadata: [\n", "broken.yaml:3:11: "),
        // Refused by the API: by then the cluster runs, and has to end again.
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  restartPolicy: Sometimes\n  containers: \
             [{name: c, image: busybox}]\n",
            "broken.yaml:5:3: spec.restartPolicy: ",
        ),
    ] {
        std::fs::write(&manifest, text).unwrap();
        // In the manifest's directory, so that its name is not cut by the terminal's edge.
        let command = format!(
            "cd {} && {} up --ephemeral --listen 127.0.0.1:0 --data-dir data -f broken.yaml; echo exit=$?; exec cat",
            home.path("").display(),
            env!("CARGO_BIN_EXE_podium")
        );
        let terminal = Terminal::run(&command);
        terminal.shows("exit=1");
        assert!(terminal.screen().contains(expected), "{}", terminal.screen());
        terminal.assert_restored();
    }
}

#[test]
fn into_a_pipe_it_says_what_to_do_con_1() {
    let binary = env!("CARGO_BIN_EXE_podium");
    let terminal = Terminal::run(&format!("({binary} --ephemeral; echo exit=$?) | cat; exec cat"));
    terminal.shows("exit=1");
    assert!(terminal.screen().contains("needs a terminal on stdin and stdout"), "{}", terminal.screen());
    terminal.assert_restored();
}

#[test]
fn closing_the_terminal_ends_everything_cli_5() {
    let home = DataDir::new();
    let mut terminal = Terminal::run(&podium(&home));
    terminal.shows("3 nodes ● 3");
    let data_dir = home.data_dir();
    assert!(processes_with(data_dir.to_str().unwrap()) > 1, "node hosts run");
    terminal.close();
    wait_for("every process to end", || (processes_with(data_dir.to_str().unwrap()) == 0).then_some(()));
}

/// Output to a closed terminal used to cause a panic in the log. SIGHUP, which goes to the processes that the terminal
/// controls, may come after the end of the terminal's input, or never.
#[test]
fn a_terminal_that_is_gone_is_no_panic_cli_5() {
    for session in ["", "setsid "] {
        let home = DataDir::new();
        let (binary, data_dir) = (env!("CARGO_BIN_EXE_podium"), home.data_dir());
        let podium = format!("{binary} --listen 127.0.0.1:0 --nodes 1 --data-dir {}", data_dir.display());
        let mut terminal = Terminal::run(&format!("{session}{podium}; exec cat"));
        terminal.shows("1 node");
        terminal.close();
        wait_for("every process to end", || (processes_with(data_dir.to_str().unwrap()) == 0).then_some(()));
        let logs = std::fs::read_dir(data_dir.join("logs")).unwrap().flatten();
        let logged: String = logs.map(|log| std::fs::read_to_string(log.path()).unwrap()).collect();
        assert!(logged.contains("INFO") && !logged.contains("panicked"), "{logged}");
    }
}

#[test]
fn without_a_terminal_it_says_what_to_do_con_1() {
    let output = Command::new(env!("CARGO_BIN_EXE_podium")).arg("--ephemeral").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("podium serve"));
}
