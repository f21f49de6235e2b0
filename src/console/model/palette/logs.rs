//! kubectl's options of `:logs`.

use console_data::resource::ObjectRef;
use console_operations::effect::{ContainerFilter, LogRun, LogStart, LogsRoute};
use object::time::read_go_duration;

use super::table;

/// The options after `:logs`.
#[derive(Debug, Default)]
pub(super) struct LogsOptions {
    /// The label selector of the pods.
    pub(super) labels: Option<String>,
    which: Option<ContainerFilter>,
    start: Option<LogStart>,
    previous: bool,
    timestamps: bool,
}

impl LogsOptions {
    /// Takes the options out of the words after the command.
    pub(super) fn take(words: &mut Vec<&str>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut rest = std::mem::take(words).into_iter().peekable();
        while let Some(word) = rest.next() {
            let (option, inline) = match (word.split_once('='), word.split_at_checked(2)) {
                (Some((option, value)), _) if option.starts_with("--") || matches!(option, "-f" | "-p") => {
                    (option, Some(value))
                }
                (_, Some((option @ ("-c" | "-l"), value))) if !value.is_empty() => {
                    (option, Some(value.strip_prefix('=').unwrap_or(value)))
                }
                _ => (word, None),
            };
            let is_on = inline != Some("false");
            let mut value =
                || inline.or_else(|| rest.next()).ok_or_else(|| format!("{option}: the value is required"));
            match option {
                // The view always follows, and names the containers if there are several.
                "-f" | "--follow" | "--prefix" => {}
                "-p" | "--previous" => options.previous = is_on,
                "--timestamps" => options.timestamps = is_on,
                "-c" | "--container" => options.which = Some(ContainerFilter::One(value()?.to_owned())),
                "--all-containers" => options.which = is_on.then_some(ContainerFilter::All),
                "-l" | "--selector" => {
                    let first = value()?;
                    options.labels = Some(table::selector(first, &mut rest)?);
                }
                "--tail" => {
                    let count = value()?;
                    let lines: i64 =
                        count.parse().map_err(|_| format!("--tail: invalid number of lines {count:?}"))?;
                    options.start = Some(if lines < 0 { LogStart::Head } else { LogStart::Tail(lines) });
                }
                "--since" => {
                    let text = value()?;
                    let since = read_go_duration(text)
                        .ok_or_else(|| format!("--since: invalid duration {text:?}, such as 5m"))?;
                    // kubectl's default is 0s, which is no limit.
                    if !since.is_zero() {
                        options.start = Some(LogStart::Since(since.as_secs().max(1).cast_signed()));
                    }
                }
                _ if option.starts_with('-') => {
                    return Err(format!(
                        "unknown option {option}; use -c CONTAINER, -p, -l LABEL=VALUE, --tail=LINES, --since=5m"
                    ));
                }
                _ => words.push(word),
            }
        }
        Ok(options)
    }

    /// Takes the container that may follow the object's name, as in kubectl.
    pub(super) fn take_container(&mut self, words: &mut Vec<&str>) -> Result<(), String> {
        if words.len() < 2 {
            return Ok(());
        }
        let container = words.remove(1);
        if self.which.is_some() {
            return Err(format!("{container}: a container and -c or --all-containers cannot be combined"));
        }
        self.which = Some(ContainerFilter::One(container.to_owned()));
        Ok(())
    }

    /// Returns the route to the logs of an object.
    pub(super) fn route(self, target: ObjectRef, run: LogRun) -> LogsRoute {
        let Self { labels, which, start, previous, timestamps } = self;
        let run = if previous { LogRun::Previous } else { run };
        LogsRoute { labels, which, start, timestamps, ..LogsRoute::of(target, run) }
    }
}
