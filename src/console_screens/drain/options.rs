//! The options of a drain as switches: their labels and their effects.

use std::time::Duration;

use console_operations::operations::drain::Options;

/// Grace periods that the switch cycles through, in seconds, the shortest last; `None` uses the period of each pod.
const GRACES: [Option<u32>; 6] = [None, Some(300), Some(60), Some(30), Some(5), Some(0)];
/// Timeouts that the switch cycles through, in seconds.
const TIMEOUTS: [Option<u64>; 6] = [None, Some(30), Some(60), Some(300), Some(900), Some(3600)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainOption {
    /// The grace period of each pod, in seconds.
    Grace,
    /// The timeout of a node.
    Timeout,
    /// Ignore pods of DaemonSets.
    DaemonSets,
    /// Evict pods without a controller.
    Force,
    /// Evict pods with `emptyDir` data.
    Data,
    /// Delete pods without checking budgets.
    Bypass,
}

/// The switches, in the order they are shown.
pub(crate) const SWITCHES: [DrainOption; 6] = [
    DrainOption::Grace,
    DrainOption::Timeout,
    DrainOption::DaemonSets,
    DrainOption::Force,
    DrainOption::Data,
    DrainOption::Bypass,
];

impl DrainOption {
    /// Returns the label.
    pub(crate) fn text(self, options: &Options) -> String {
        let tick = |on: bool| if on { "[x]" } else { "[ ]" };
        match self {
            Self::Grace => match options.grace_seconds {
                None => "grace: pod's own".to_owned(),
                Some(seconds) => format!("grace: {seconds}s"),
            },
            Self::Timeout => match options.timeout {
                None => "timeout: none".to_owned(),
                Some(timeout) => format!("timeout: {}s", timeout.as_secs()),
            },
            Self::DaemonSets => format!("{} ignore DaemonSets", tick(options.ignore_daemon_sets)),
            Self::Force => format!("{} evict unmanaged", tick(options.force)),
            Self::Data => format!("{} delete emptyDir data", tick(options.delete_empty_dir_data)),
            Self::Bypass => format!("{} bypass budgets", tick(options.disable_eviction)),
        }
    }

    /// Toggles the switch or selects its next value.
    pub(crate) fn press(self, options: &mut Options) {
        match self {
            Self::Grace => options.grace_seconds = following(&GRACES, options.grace_seconds),
            Self::Timeout => {
                let now = options.timeout.map(|timeout| timeout.as_secs());
                options.timeout = following(&TIMEOUTS, now).map(Duration::from_secs);
            }
            Self::DaemonSets => options.ignore_daemon_sets = !options.ignore_daemon_sets,
            Self::Force => options.force = !options.force,
            Self::Data => options.delete_empty_dir_data = !options.delete_empty_dir_data,
            Self::Bypass => options.disable_eviction = !options.disable_eviction,
        }
    }

    /// Returns whether the current value risks a loss of data or availability.
    pub(crate) fn is_risky(self, options: &Options) -> bool {
        match self {
            Self::Bypass => options.disable_eviction,
            Self::Force => options.force,
            Self::Data => options.delete_empty_dir_data,
            Self::Grace => options.grace_seconds == Some(0),
            Self::Timeout | Self::DaemonSets => false,
        }
    }
}

fn following<T: Copy + PartialEq>(all: &[T], now: T) -> T {
    let at = all.iter().position(|one| *one == now).map_or(0, |at| (at + 1) % all.len());
    all[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first press does not select the grace period of zero, which kills at once.
    #[test]
    fn grace_gets_shorter_press_by_press_con_6() {
        let mut options = Options::default();
        let mut described = Vec::new();
        for _ in 0..GRACES.len() {
            DrainOption::Grace.press(&mut options);
            described.push(options.grace_seconds);
        }
        assert_eq!(described, [Some(300), Some(60), Some(30), Some(5), Some(0), None]);
    }
}
