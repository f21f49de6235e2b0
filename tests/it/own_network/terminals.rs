//! `podium shell` in a terminal, and its end with the cluster.

use std::path::PathBuf;
use std::process::Command;

use super::{Cluster, users, wait_for};
use crate::fabric::User;
use crate::terminal::pty::Terminal;

impl Cluster {
    /// The binary that the cluster was started with.
    fn program(&self) -> PathBuf {
        let copy = Some(self.home.path("podium")).filter(|path| path.exists());
        copy.unwrap_or_else(|| self.home.program())
    }

    /// Opens a terminal with `podium shell` as the user that runs the cluster; it prints the exit code.
    fn shell_in_a_terminal(&self) -> Terminal {
        let program = self.program();
        let (home, data) = (self.home.path(""), self.home.data_dir());
        std::fs::write(home.join(".bashrc"), "PS1='inside> '\n").unwrap();
        // A user's terminal is that user's.
        let who = match self.user {
            User::Own => "",
            User::Ordinary => "chown 65534 $(tty); setpriv --reuid 65534 --regid 65534 --clear-groups",
        };
        Terminal::run(&format!(
            "cd {home}; export HOME={home} SHELL=/bin/bash; {who} {program} shell --data-dir {data}; echo ended=$?; exec cat",
            home = home.display(),
            program = program.display(),
            data = data.display(),
        ))
    }
}

/// Returns the rest of the screen's line that starts with this name.
fn value_of(terminal: &Terminal, name: &str) -> String {
    let line = |screen: &str| screen.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    wait_for(name, || line(&terminal.screen())).trim().to_owned()
}

/// Finds processes in a network namespace, as far as this test may see them.
fn inside(namespace: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_there = |process: &PathBuf| {
        std::fs::read_link(process.join("ns/net")).is_ok_and(|own| own.to_str() == Some(namespace))
    };
    all.filter(is_there).collect()
}

/// NET-7: the shell has the user's own terminal: prompt, jobs, Ctrl-Z and Ctrl-C, the size, the exit code.
#[test]
fn a_shell_has_the_terminal_as_any_other_net_7() {
    for user in users() {
        let cluster = Cluster::start(user, "");
        let terminal = cluster.shell_in_a_terminal();
        terminal.shows("inside> ");
        // A key that the terminal acts upon discards unread input: the program must have started. It starts no child: a
        // shell with a child that is stopped between vfork and exec waits for it and cannot be stopped itself.
        let program =
            "sh -c 'trap \"echo on\" CONT; echo $((40 + 1)); while :; do read line; echo got $line; done'";
        terminal.keys(&[program, "Enter"]);
        terminal.shows("\n41");
        terminal.keys(&["C-z"]);
        terminal.shows("Stopped");
        terminal.keys(&["jobs -r; echo $((40 + 2)) jobs; fg", "Enter"]);
        terminal.shows("42 jobs");
        terminal.shows("\non");
        // Bash may lose the end of a program that ends before bash waits for it: the program must have the terminal.
        terminal.keys(&["line", "Enter"]);
        terminal.shows("got line");
        terminal.keys(&["C-c"]);
        // Input typed before the shell's next prompt may be discarded with the program.
        wait_for("the prompt", || terminal.screen().trim_end().ends_with("inside>").then_some(()));
        terminal.keys(&["echo code=$?", "Enter"]);
        assert_eq!(value_of(&terminal, "code="), "130", "as {user:?}");
        terminal.keys(&["clear; sh -c 'trap \"stty size; exit 5\" WINCH; echo waits; while :; do read line; done'; echo $?", "Enter"]);
        wait_for("the program", || {
            terminal.screen().lines().any(|line| line.trim() == "waits").then_some(())
        });
        terminal.resize(91, 23);
        terminal.shows("23 91");
        terminal.keys(&["exit 42", "Enter"]);
        terminal.shows("ended=42");
        terminal.assert_restored();
        cluster.instance.stop();
    }
}

/// NET-7, NET-5: an open shell is notified and ended when the cluster ends, with all its processes, including those in
/// other sessions and those that ignore signals; its network is empty afterwards.
#[test]
fn a_stop_ends_the_shells_that_are_open_net_7() {
    for user in users() {
        let mut cluster = Cluster::start(user, "");
        let terminal = cluster.shell_in_a_terminal();
        terminal.shows("inside> ");
        terminal
            .keys(&["setsid sh -c 'trap \"\" HUP TERM; sleep 100000; true' & sleep 100000 & clear", "Enter"]);
        terminal.keys(&["echo network=$(readlink /proc/self/ns/net)", "Enter"]);
        let network = value_of(&terminal, "network=");
        wait_for("the programs", || (inside(&network).len() >= 4).then_some(()));
        let machine = std::fs::read_link("/proc/self/ns/net").unwrap();
        assert_ne!(Some(network.as_str()), machine.to_str());
        let crashed = user == User::Own;
        if crashed {
            // The remains of a killed control plane are ended by hand.
            let pid = cluster.instance.pid();
            rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(),
                rustix::process::Signal::KILL,
            )
            .unwrap();
            cluster.instance.wait();
            let mut stop = Command::new(cluster.program());
            let stopped = stop.args(["stop", "--data-dir"]).arg(cluster.home.data_dir()).output().unwrap();
            assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
        } else {
            cluster.instance.stop();
        }
        terminal.shows("podium: the cluster has stopped, and its network too; this shell ends");
        // It ends as a shell does after its terminal is closed. Each shell leaves the terminal in its own state: a bash
        // that hangs up at its prompt may have turned bracketed paste on again (5.2), and the user's shell outside
        // turns it off.
        terminal.shows("ended=129");
        assert_eq!(inside(&network), Vec::<PathBuf>::new(), "as {user:?}");
    }
}
