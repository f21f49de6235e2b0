//! The command line `ps` shows of a process that was forked, not executed.
//!
//! Allocates nothing: between fork and exec another thread's lock on the heap may be held for ever.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

/// Longest line of `/proc/self/stat`, with room to spare.
const STAT_BYTES: usize = 1024;

/// Overwrites the command line of this process; its old one is longer than any title we give.
pub(super) fn set(title: &[u8]) -> std::io::Result<()> {
    let mut stat = [0; STAT_BYTES];
    let length = File::open("/proc/self/stat")?.read(&mut stat)?;
    let Some((start, end)) = arguments(&stat[..length]) else { return Ok(()) };
    let memory = OpenOptions::new().write(true).open("/proc/self/mem")?;
    let zeros = [0; 256];
    let mut at = start;
    while at < end {
        let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(zeros.len());
        at += memory.write_at(&zeros[..count], at)? as u64;
    }
    let room = usize::try_from(end.saturating_sub(start + 1)).unwrap_or(usize::MAX);
    memory.write_all_at(&title[..title.len().min(room)], start)
}

/// Where the arguments are in memory: fields 48 and 49 of proc(5)'s stat. The name in the second field may
/// hold anything, so fields are counted from its closing parenthesis.
fn arguments(stat: &[u8]) -> Option<(u64, u64)> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = stat[name_end + 1..].split(|byte| byte.is_ascii_whitespace()).skip(1);
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    // The first one here is the third of the line.
    let start = number(fields.nth(48 - 3)?)?;
    let end = number(fields.next()?)?;
    (start != 0 && start < end).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields are found behind a name that looks like fields itself.
    #[test]
    fn the_arguments_are_found_in_the_stat_line() {
        let mut line = b"12 (a) b 1 2) S".to_vec();
        for field in 4..=52 {
            line.extend(format!(" {}", field * 100).bytes());
        }
        assert_eq!(arguments(&line), Some((4800, 4900)));
        assert_eq!(arguments(b"12 (x) S 1 2"), None);
        let own = std::fs::read("/proc/self/stat").unwrap();
        let (start, end) = arguments(&own).expect("this process has arguments");
        let line = std::fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(end - start, line.len() as u64);
    }
}
