//! Runs one build: a command in a process group of its own, whose output is bounded.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use rustix::thread::UnshareFlags;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::report::{Report, plain_text};
use super::state_files::file_name;
use super::target::{BuildTarget, Recipe};
use base::subordinate_ids::{as_real_user, real_user};

/// The variable that tells a build command where to write its result.
const OUTPUT_VARIABLE: &str = "PODIUM_OUTPUT";
/// The maximum length of a line in bytes; longer lines are cut.
const LINE_BYTES: usize = 4096;
/// The maximum number of lines of one build that are shown as they come.
const SHOWN_LINES: usize = 5000;
/// The number of last lines that a failure repeats.
const LAST_LINES: usize = 12;
/// Time for a cancelled build to end before it is killed.
const GRACE: Duration = Duration::from_secs(3);
/// Time for the output that a finished build has left in its pipe.
const DRAIN: Duration = Duration::from_millis(300);
const BUILDAH: &str = "buildah";
/// The repository of built images in buildah's own store.
const BUILDAH_REPOSITORY: &str = "localhost/podium-dev";
/// Time limit for buildah's answers about its store.
const BUILDAH_ANSWER: Duration = Duration::from_secs(20);
/// Interval of the notes that a build still runs.
const STILL: Duration = Duration::from_secs(30);

/// The reason why a build gave no result.
#[derive(Debug)]
pub(super) struct BuildFailure {
    /// The exit status, or the error.
    pub(super) reason: String,
    /// The last lines of the output.
    pub(super) last_lines: Vec<String>,
}

impl BuildFailure {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), last_lines: Vec::new() }
    }
}

/// Builds the image of a target; returns the file with the result: a program or an image archive. `work` is an empty
/// directory for it.
pub(super) async fn build(
    target: &BuildTarget,
    work: &Path,
    report: &Report,
) -> Result<PathBuf, BuildFailure> {
    let result = work.join("output");
    match &target.recipe {
        Recipe::Command { words, directory, output } => {
            if let Some((program, arguments)) = words.split_first() {
                // A path is relative to the directory; the name of a program is searched in PATH.
                let is_path = program.contains('/');
                let program = if is_path { directory.join(program).into() } else { OsString::from(program) };
                let environment = [(OUTPUT_VARIABLE, result.as_os_str())];
                run(target.name(), &program, arguments, directory, &environment, report).await?;
            }
            if result.exists() {
                return Ok(result);
            }
            let Some(output) = output else {
                return Err(BuildFailure::new(format!(
                    "the build has written nothing to ${OUTPUT_VARIABLE}, and the image's entry names no output"
                )));
            };
            match fs::metadata(output) {
                Ok(about) if about.is_file() => Ok(output.clone()),
                Ok(_) => Err(BuildFailure::new(format!(
                    "{} is not a file: an image must be packed as an archive",
                    output.display()
                ))),
                Err(error) => Err(BuildFailure::new(format!("no output: {}: {error}", output.display()))),
            }
        }
        Recipe::Containerfile { file, context } => {
            let id_file = work.join("id");
            let text = |path: &Path| path.display().to_string();
            let tag = format!("{BUILDAH_REPOSITORY}:{}", file_name(target.name()));
            let before = buildah_id(&tag).await;
            // A build that fails or is ended leaves no container in buildah's store.
            let words =
                ["bud", "--layers", "--force-rm", "--tag", &tag, "--iidfile", &text(&id_file), "--file"];
            let mut words: Vec<String> = words.map(str::to_owned).to_vec();
            words.push(text(file));
            if std::env::var_os("BUILDAH_ISOLATION").is_none() {
                // Needs neither a container runtime nor rights beyond the user's.
                words.splice(1..1, ["--isolation".to_owned(), "chroot".to_owned()]);
            }
            words.push(text(context));
            buildah(target.name(), &words, context, report).await.map_err(with_remedy)?;
            let id = fs::read_to_string(&id_file);
            let id = id.map_err(|error| BuildFailure::new(format!("buildah has written no id: {error}")))?;
            // The layers of other archives are compressed, which takes most of the time of a small change.
            let archive = format!("docker-archive:{}", text(&result));
            let words = ["push", "--quiet", id.trim(), &archive].map(str::to_owned);
            buildah(target.name(), &words, context, report).await?;
            if let Some(before) = before.filter(|before| before != id.trim()) {
                remove_from_buildah(&before).await;
            }
            Ok(result)
        }
    }
}

async fn buildah(
    name: &str,
    words: &[String],
    directory: &Path,
    report: &Report,
) -> Result<(), BuildFailure> {
    run(name, OsStr::new(BUILDAH), words, directory, &[], report).await
}

/// Gives a program a mount namespace of its own: root of a user namespace may mount nothing in the machine's.
#[expect(unsafe_code, reason = "the way of a child to its program")]
fn give_own_mounts(command: &mut Command) {
    // SAFETY: the child only calls the kernel, and shares no state with this process.
    unsafe {
        command.pre_exec(|| {
            // Without the namespace the program reports which mount it lacks; it may need none.
            let _ = rustix::thread::unshare_unsafe(UnshareFlags::NEWNS);
            Ok(())
        });
    }
}

/// Adds the remedy to a failure of buildah itself.
fn with_remedy(failure: BuildFailure) -> BuildFailure {
    match remedy(&failure.last_lines) {
        Some(remedy) => BuildFailure { reason: format!("{}; {remedy}", failure.reason), ..failure },
        None => failure,
    }
}

/// The remedy for what buildah lacks on a machine, by its last lines.
fn remedy(lines: &[String]) -> Option<&'static str> {
    let has = |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    if has(&["setting supplemental groups list", "not permitted"]) {
        return Some("RUN needs subordinate ids in /etc/subuid and /etc/subgid, and the package uidmap");
    }
    let is_overlay = has(&["creating overlay mount"])
        || has(&["mount ", "/overlay:", "not permitted"])
        || has(&["'overlay' is not supported"]);
    is_overlay.then_some("this machine mounts no overlays: set STORAGE_DRIVER=vfs")
}

/// The id of an image in buildah's own store, if it is there.
async fn buildah_id(tag: &str) -> Option<String> {
    let mut command = buildah_command();
    // Without the id of the previous build, its files stay in buildah's store.
    let output = command.args(["images", "--quiet", "--no-trunc", tag]).output();
    let output = timeout(BUILDAH_ANSWER, output).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Creates a command that runs as the user.
fn user_command(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).kill_on_drop(true);
    as_real_user(command.as_std_mut());
    command
}

/// Creates a command of buildah. An ordinary user with subordinate ids is root of a user namespace here: buildah uses
/// it like those that it creates itself, with a mount namespace for its overlays.
fn buildah_command() -> Command {
    let mut command = Command::new(BUILDAH);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let Some(user) = real_user() else { return command };
    give_own_mounts(&mut command);
    command.env("_CONTAINERS_USERNS_CONFIGURED", "done");
    command.env("_CONTAINERS_ROOTLESS_UID", user.uid.to_string());
    command.env("_CONTAINERS_ROOTLESS_GID", user.gid.to_string());
    command
}

/// Removes the previous image of a target from buildah's own store. Layers that the present one has stay.
async fn remove_from_buildah(id: &str) {
    match timeout(BUILDAH_ANSWER, buildah_command().args(["rmi", id]).output()).await {
        Ok(Ok(output)) if output.status.success() => {}
        Ok(Ok(output)) => {
            tracing::debug!("buildah keeps {id}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(Err(error)) => tracing::debug!("buildah keeps {id}: {error}"),
        Err(_) => tracing::debug!("buildah keeps {id}: no answer"),
    }
}

/// Runs a program to its end. Dropping the future kills its process group.
async fn run(
    name: &str,
    program: &OsStr,
    arguments: &[String],
    directory: &Path,
    environment: &[(&str, &OsStr)],
    report: &Report,
) -> Result<(), BuildFailure> {
    let shown = program.to_string_lossy().into_owned();
    let failed = |error: std::io::Error| {
        let hint = match (error.kind(), shown.as_str()) {
            (ErrorKind::NotFound, BUILDAH) => {
                "; install the package buildah, or describe another `build:` for the image"
            }
            (ErrorKind::NotFound, _) if !directory.is_dir() => "; the build's directory is gone",
            _ => "",
        };
        BuildFailure::new(format!("{shown}: {error}{hint}"))
    };
    let (output, input) = std::io::pipe().map_err(failed)?;
    let mut command = if program == BUILDAH { buildah_command() } else { user_command(program) };
    command.args(arguments).current_dir(directory).envs(environment.iter().copied());
    command.stdout(input.try_clone().map_err(failed)?).stderr(input).process_group(0);
    let output = Receiver::from_owned_fd(output.into()).map_err(failed)?;
    let mut processes = BuildProcesses::new(command.spawn().map_err(failed)?);
    // The command holds the other end of the pipe.
    drop(command);
    let mut lines = OutputLines::new(name, report);
    let ended = follow(&mut processes.child, output, &mut lines, name, report).await;
    // Background processes of a build end with it.
    drop(processes);
    let last_lines = lines.finish();
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(BuildFailure { reason: format!("{shown}: {status}"), last_lines }),
        Err(error) => Err(BuildFailure { reason: format!("{shown}: {error}"), last_lines }),
    }
}

async fn follow(
    child: &mut Child,
    mut output: Receiver,
    lines: &mut OutputLines<'_>,
    name: &str,
    report: &Report,
) -> std::io::Result<ExitStatus> {
    let mut buffer = vec![0; 16 * 1024];
    let mut is_open = true;
    let mut silent = Duration::ZERO;
    let status = loop {
        tokio::select! {
            read = output.read(&mut buffer), if is_open => {
                silent = Duration::ZERO;
                match read {
                    Ok(count) if count > 0 => lines.take(&buffer[..count]),
                    _ => is_open = false,
                }
            }
            status = child.wait() => break status?,
            () = tokio::time::sleep(STILL) => {
                silent += STILL;
                report.note(&format!("{name}: still building, silent for {} s", silent.as_secs()));
            }
        }
    };
    let rest = async {
        while let Ok(count) = output.read(&mut buffer).await {
            if count == 0 {
                break;
            }
            lines.take(&buffer[..count]);
        }
    };
    if is_open {
        // A background process may hold the pipe open.
        let _ = timeout(DRAIN, rest).await;
    }
    Ok(status)
}

/// A process and its descendants, which end when this is dropped: by SIGTERM, and after the grace period by SIGKILL.
/// Dropping blocks for at most the grace period, so that no process of a build outlives this program.
struct BuildProcesses {
    child: Child,
    group: Option<Pid>,
}

impl BuildProcesses {
    fn new(child: Child) -> Self {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { child, group }
    }
}

impl Drop for BuildProcesses {
    fn drop(&mut self) {
        const STEPS: u32 = 150;
        let Some(group) = self.group else { return };
        let mut is_there = kill_process_group(group, Signal::TERM).is_ok();
        for _ in 0..STEPS {
            // A child that was not waited for still counts as a process.
            let _ = self.child.try_wait();
            is_there &= test_kill_process_group(group).is_ok();
            if !is_there {
                return;
            }
            std::thread::sleep(GRACE / STEPS);
        }
        // The group may have ended since the last test.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The output of a build by lines: shown up to a limit, with the last ones for a failure.
struct OutputLines<'a> {
    name: &'a str,
    report: &'a Report,
    line: Vec<u8>,
    is_cut: bool,
    count: usize,
    last: VecDeque<Vec<u8>>,
}

impl<'a> OutputLines<'a> {
    fn new(name: &'a str, report: &'a Report) -> Self {
        Self { name, report, line: Vec::new(), is_cut: false, count: 0, last: VecDeque::new() }
    }

    fn take(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_end) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
            let left = LINE_BYTES.saturating_sub(self.line.len());
            self.is_cut |= text.len() > left;
            self.line.extend_from_slice(&text[..text.len().min(left)]);
            if is_end {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_cut) {
            line.extend_from_slice("…".as_bytes());
        }
        self.count += 1;
        match self.count {
            0..SHOWN_LINES => self.report.build_line(self.name, &plain_text(&line)),
            SHOWN_LINES => self.report.build_line(self.name, "… more output, which is not shown"),
            _ => {}
        }
        // A line becomes text when it is shown: a build may write gigabytes.
        if self.last.len() >= LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    fn finish(mut self) -> Vec<String> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.last.iter().map(|line| plain_text(line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines are those of buildah 1.28.
    #[test]
    fn what_buildah_lacks_is_reported_with_the_remedy_dev_1() {
        let table = [
            ("error setting supplemental groups list: operation not permittedsubprocess exited", "RUN needs"),
            (
                "Error: mount /h/storage/overlay:/h/storage/overlay, flags: 0x1000: operation not permitted",
                "vfs",
            ),
            (
                "Error: mounting new container: creating overlay mount to /h/merged: using mount program",
                "vfs",
            ),
            ("Error: building at STEP \"RUN mount /x\": exit status 1", ""),
            ("chown: overlay: operation not permitted", ""),
        ];
        for (line, expect) in table {
            let found = remedy(&["STEP 1/2: FROM scratch".to_owned(), line.to_owned()]);
            assert_eq!(found.is_some(), !expect.is_empty(), "{line}");
            assert!(found.unwrap_or_default().contains(expect), "{line}");
        }
    }

    #[test]
    fn output_is_bounded_and_controls_no_terminal_dev_4() {
        let report = Report::silent();
        let mut lines = OutputLines::new("app", &report);
        lines.take(b"\x1b[31mred\x1b[0m\x1b]0;title\x07\nsecond\r\nhalf");
        lines.take(b" line\n");
        lines.take(&vec![b'x'; 3 * LINE_BYTES]);
        lines.take(b"\n");
        let last = lines.finish();
        assert_eq!(last[..3], ["red", "second", "half line"]);
        assert_eq!(last[3].chars().count(), LINE_BYTES + 1);
        let mut lines = OutputLines::new("app", &report);
        for number in 0..100_000 {
            lines.take(format!("{number}\n").as_bytes());
        }
        assert_eq!(lines.finish().len(), LAST_LINES);
    }
}
