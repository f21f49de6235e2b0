//! Log output: a rolling file under the data directory, and stderr when there is no console (CLI-7).

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Number of log files to retain, one a day.
const MAX_LOG_FILES: usize = 7;

/// Writes the queued log lines when dropped.
pub(super) struct Logging {
    _guard: Option<WorkerGuard>,
}

/// Selects whether logs also appear on stderr.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stderr {
    /// No logs on stderr, because the screen belongs to the console.
    Silent,
    /// Logs on stderr too, because there is no console.
    Shown,
}

/// Starts logging. A log that cannot be written is reported once and does not prevent the start.
pub(super) fn start(data_dir: &Path, level: tracing::Level, stderr: Stderr) -> Logging {
    let directory = data_dir.join("logs");
    // The appender reports a directory that cannot be created.
    let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    let appender = tracing_appender::rolling::Builder::new()
        .rotation(tracing_appender::rolling::Rotation::DAILY)
        .filename_prefix("podium")
        .filename_suffix("log")
        .max_log_files(MAX_LOG_FILES)
        .build(&directory);
    let (file, guard) = match appender {
        Ok(appender) => {
            let (writer, guard) = tracing_appender::non_blocking(appender);
            (Some(tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer)), Some(guard))
        }
        Err(error) => {
            super::output::eprint_line(&format!(
                "podium: cannot create a log file in {}: {error}",
                directory.display()
            ));
            (None, None)
        }
    };
    let shown = (stderr == Stderr::Shown).then(|| {
        let ansi =
            std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
        tracing_subscriber::fmt::layer().with_ansi(ansi).with_writer(super::output::LogStderr)
    });
    let level = LevelFilter::from_level(level);
    // Libraries log only warnings and errors; otherwise their many lines would hide Podium's own.
    let targets = tracing_subscriber::filter::Targets::new()
        .with_target("podium", level)
        .with_default(LevelFilter::WARN.min(level));
    let _ = tracing_subscriber::registry()
        .with(file.with_filter(targets.clone()))
        .with(shown.with_filter(targets))
        .try_init();
    Logging { _guard: guard }
}
