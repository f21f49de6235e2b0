//! Gives back to the kernel the memory pages of the program's file that only a start uses.
//!
//! A start runs through most of a program once. The pages of its file that it has touched stay resident until the
//! kernel needs the memory, although an idle cluster uses less than half of them. The kernel keeps the file's content
//! in its page cache and maps a page again at its next use.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use rustix::mm::{Advice, madvise};

/// Long enough for nodes to register and for built-in images to be prepared.
const START_DURATION: Duration = Duration::from_secs(20);

/// Waits until the start is over and gives its pages back to the kernel.
pub async fn return_after_start() {
    tokio::time::sleep(START_DURATION).await;
    if let Err(error) = return_pages() {
        tracing::debug!(%error, "the pages of the program's file stay resident");
    }
}

#[expect(unsafe_code, reason = "madvise has no safe wrapper")]
fn return_pages() -> io::Result<()> {
    let program = std::fs::read_link("/proc/self/exe")?;
    for range in unchanged(&std::fs::read_to_string("/proc/self/smaps")?, &program) {
        // SAFETY: the mapping cannot be written and no page of it differs from the file, from which the kernel reads
        // each page again.
        unsafe { madvise(range.start as *mut _, range.len(), Advice::LinuxDontNeed) }?;
    }
    Ok(())
}

/// The mappings of the program's code and constants, from `/proc/PID/smaps`. Pages that the loader has written (with
/// relocated addresses) are anonymous: a mapping with such pages is left out.
fn unchanged(smaps: &str, program: &Path) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut mapping = None;
    for line in smaps.lines() {
        match line.split_once(':') {
            Some(("Anonymous", value)) => found.extend(mapping.take().filter(|_| value.trim() == "0 kB")),
            // Another field of the mapping. The first line of a mapping has spaces before the first colon.
            Some((field, _)) if !field.contains(' ') => {}
            _ => mapping = constant_mapping(line, program),
        }
    }
    found
}

/// Reads the first line of a mapping: the range of a part of the program's file that cannot be written.
fn constant_mapping(line: &str, program: &Path) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_constant = matches!(words.next()?, "r--p" | "r-xp");
    // The path is the rest of the line, because it may have spaces.
    let is_program = line.find('/').is_some_and(|at| Path::new(&line[at..]) == program);
    let number = |digits| usize::from_str_radix(digits, 16).ok();
    (is_constant && is_program).then_some(number(start)?..number(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unchanged_constant_pages_of_the_program_are_returned_cli_1() {
        let mapping = |range: &str, flags: &str, path: &str, anonymous: u32| {
            format!(
                "{range} {flags} 00001000 fe:00 7      {path}\nSize:  8 kB\nAnonymous:   {anonymous} kB\nVmFlags: rd\n"
            )
        };
        let program = "/opt/my tools/podium";
        let smaps = [
            mapping("1000-2000", "r--p", program, 0),
            mapping("2000-9000", "r-xp", program, 0),
            mapping("9000-a000", "r--p", program, 96),
            mapping("a000-b000", "rw-p", program, 0),
            mapping("b000-c000", "rwxp", program, 0),
            mapping("c000-d000", "r-xp", "/usr/lib/libc.so.6", 0),
            mapping("d000-e000", "r-xp", "/opt/my tools/podium2", 0),
            mapping("e000-f000", "r-xp", "[vdso]", 0),
            "f000-ff00 r-xp 00000000 00:00 0\nAnonymous: 0 kB\nnonsense\n".to_owned(),
        ]
        .concat();
        assert_eq!(unchanged(&smaps, Path::new(program)), [0x1000..0x2000, 0x2000..0x9000]);
        assert!(unchanged(&smaps, Path::new("/opt/my")).is_empty());
    }

    #[test]
    fn the_program_runs_on_after_its_pages_were_returned_cli_1() {
        return_pages().unwrap();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        assert!(!unchanged(&smaps, &std::env::current_exe().unwrap()).is_empty());
    }
}
