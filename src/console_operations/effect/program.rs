//! Background programs of plugins: their end is reported, with the first line of their output (CON-16).

use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::mpsc;

use base::subordinate_ids::as_real_user;
use console_data::action::{Action, Mutation, Outcome};
use console_data::extensions::{BackgroundReport, PluginRun, ProgramTarget};
use console_data::message::Message;
use console_toolkit::text::clean;
use console_toolkit::toast::Toast;

/// The maximum length of the first line in bytes.
const MAX_LINE_BYTES: usize = 400;

/// k9s' prefix for a line to report.
const PREFIX: &str = "[output]";

/// Kills a program and its descendants when it is dropped.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // The program may have ended.
            let _ = kill_process_group(group, Signal::TERM);
        }
    }
}

/// Runs a program to its end and reports the outcome.
pub(super) async fn run(run: PluginRun, messages: mpsc::Sender<Message>) {
    let ended = run_to_end(&run).await;
    let report = match run.run_target {
        ProgramTarget::Background(report) => report,
        ProgramTarget::Pane => BackgroundReport::Code,
    };
    let message = match ended {
        Ok((status, output, _)) if status.success() => {
            let text = match (report, output.as_str()) {
                (BackgroundReport::Output, line) if !line.is_empty() => line.to_owned(),
                (_, "") => format!("{}: exit code 0", run.title()),
                (_, line) => format!("{}: exit code 0: {line}", run.title()),
            };
            Message::Toast(Toast::done(text))
        }
        Ok((status, output, error)) => {
            let line = if error.is_empty() { output } else { error };
            let end = if line.is_empty() {
                describe_exit_status(status)
            } else {
                format!("{}: {line}", describe_exit_status(status))
            };
            failed(&run, end)
        }
        Err(why) => failed(&run, why),
    };
    // The loop may have ended.
    let _ = messages.send(message).await;
}

/// Runs a program to its end; returns its exit status, and the first lines of its output and of its errors.
async fn run_to_end(run: &PluginRun) -> Result<(ExitStatus, String, String), String> {
    let program = &run.program;
    let Some((name, arguments)) = program.words.split_first() else { return Err("no program".to_owned()) };
    let mut command = Command::new(name);
    command.args(arguments).envs(program.environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    as_real_user(command.as_std_mut());
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", clean(name)))?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut group = ProcessGroup(pid);
    let (output, error) = (child.stdout.take(), child.stderr.take());
    // Background processes of the program may hold its output open; only the end of the program itself counts.
    let (mut first, mut wrong) = (Vec::new(), Vec::new());
    let status = {
        let mut reading = std::pin::pin!(async {
            tokio::join!(first_line(output, &mut first), first_line(error, &mut wrong));
        });
        tokio::select! {
            // All output has been read once both streams end.
            () = &mut reading => child.wait().await,
            status = child.wait() => {
                // Reads what the pipes have already, and no more.
                let _ = futures::FutureExt::now_or_never(&mut reading);
                status
            }
        }
    };
    group.0 = None;
    let status = status.map_err(|error| format!("{}: {error}", clean(name)))?;
    Ok((status, in_line(&first), in_line(&wrong)))
}

/// Reads a stream to its end; retains the first line that is not blank.
async fn first_line(source: Option<impl AsyncRead + Unpin>, line: &mut Vec<u8>) {
    let Some(mut source) = source else { return };
    let mut buffer = vec![0; 16 * 1024];
    let mut is_whole = false;
    while let Ok(count) = source.read(&mut buffer).await {
        if count == 0 {
            return;
        }
        for byte in &buffer[..count] {
            if line.is_empty() && byte.is_ascii_whitespace() {
                continue;
            }
            is_whole = is_whole || *byte == b'\n' || line.len() == MAX_LINE_BYTES;
            if is_whole {
                break;
            }
            line.push(*byte);
        }
    }
}

fn in_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    clean(text.trim().trim_start_matches(PREFIX).trim()).into_owned()
}

fn describe_exit_status(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The journal has the error.
fn failed(run: &PluginRun, reason: String) -> Message {
    let action = Action::new(&run.target, run.title(), run.program.to_string(), Mutation::nothing());
    Message::ActionEnded(Box::new(Outcome { action, error: Some(reason), after: None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use console_data::builtin_kinds;
    use console_data::extensions::Program;
    use console_data::resource::ObjectRef;
    use k8s_openapi::api::core::v1::Pod;

    fn of(words: &[&str], report: BackgroundReport) -> PluginRun {
        let target = ObjectRef {
            kind: builtin_kinds::kind::<Pod>(),
            namespace: Some("default".to_owned()),
            name: "web".to_owned(),
            uid: None,
        };
        let words = words.iter().map(ToString::to_string).collect();
        let program = Program { words, environment: vec![("PODIUM_X".to_owned(), "y".to_owned())] };
        PluginRun { name: "p".to_owned(), target, program, run_target: ProgramTarget::Background(report) }
    }

    /// Returns the report of a run, and whether the journal has it as a failure.
    async fn report_of(words: &[&str], report: BackgroundReport) -> (String, bool) {
        let (sender, mut messages) = mpsc::channel(4);
        run(of(words, report), sender).await;
        match messages.recv().await.expect("a message") {
            Message::Toast(toast) => (toast.text, false),
            Message::ActionEnded(outcome) => (outcome.error.unwrap_or_default(), true),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn the_end_of_a_program_is_reported_with_its_first_line_con_16() {
        for (script, how, text, wrong) in [
            (
                "echo; echo '  one  '; echo two",
                BackgroundReport::Code,
                "plugin p on Pod default/web: exit code 0: one",
                false,
            ),
            ("echo $PODIUM_X", BackgroundReport::Output, "y", false),
            ("echo '[output] said'", BackgroundReport::Output, "said", false),
            ("true", BackgroundReport::Output, "plugin p on Pod default/web: exit code 0", false),
            ("echo out; echo err >&2; exit 3", BackgroundReport::Code, "exit code 3: err", true),
            ("kill -9 $$", BackgroundReport::Code, "ended by signal 9", true),
            ("printf '\\033]0;x\\007'", BackgroundReport::Output, "␛]0;x␇", false),
            // Megabytes of output are read and discarded.
            (
                "head -c 3000000 /dev/zero | tr '\\0' a; exit 1",
                BackgroundReport::Code,
                "exit code 1: aaaa",
                true,
            ),
            // A process that it leaves behind holds its output open; the runner does not wait for that.
            (
                "sleep 60 & echo left",
                BackgroundReport::Code,
                "plugin p on Pod default/web: exit code 0: left",
                false,
            ),
        ] {
            let (message, failed) = report_of(&["sh", "-c", script], how).await;
            assert!(message.starts_with(text), "{script}: {message:?}");
            assert_eq!(failed, wrong, "{script}");
        }
        let (message, failed) = report_of(&["/no/such/program"], BackgroundReport::Code).await;
        assert!(message.starts_with("/no/such/program: No such file") && failed, "{message}");
    }

    #[tokio::test]
    async fn a_first_line_that_arrives_in_parts_is_whole_con_16() {
        for (first, second, expected) in [
            ("\nhel", "lo\nmore", "hello"),
            ("  \n\t", "\none\ntwo", "one"),
            ("one\n", "two\n", "one"),
            ("one", "", "one"),
        ] {
            let mut line = Vec::new();
            first_line(Some(first.as_bytes().chain(second.as_bytes())), &mut line).await;
            assert_eq!(in_line(&line), expected, "{first:?} {second:?}");
        }
    }

    #[tokio::test]
    async fn a_program_ends_with_who_waits_for_it_con_16() {
        let dir = tempfile::tempdir().unwrap();
        let (ready, gone) = (dir.path().join("ready"), dir.path().join("gone"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &ready, rustix::fs::Mode::RWXU).unwrap();
        // Its stderr is no longer read: the shell's message about the killed child would end the shell by SIGPIPE.
        let script = format!(
            "exec 2>/dev/null; trap 'echo > {gone}; exit' TERM; echo > {ready}; while :; do sleep 0.05; done",
            ready = ready.display(),
            gone = gone.display()
        );
        rustix::fs::mkfifoat(rustix::fs::CWD, &gone, rustix::fs::Mode::RWXU).unwrap();
        let (sender, _messages) = mpsc::channel(4);
        let task = tokio::spawn(run(
            of(&["sh", "-c", &format!("sh -c \"{script}\"; true")], BackgroundReport::Code),
            sender,
        ));
        let wait =
            |path: std::path::PathBuf| tokio::task::spawn_blocking(move || std::fs::read(path).unwrap());
        wait(ready).await.unwrap();
        task.abort();
        wait(gone).await.unwrap();
    }
}
