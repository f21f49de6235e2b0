//! Returns the memory pages of code that only a start of the cluster uses.
//!
//! A start runs through most of the program once. The pages of the program's file that it has touched stay resident
//! until the kernel needs the memory, although an idle cluster uses less than half of them. The kernel keeps the file's
//! content in its page cache and maps a page again when its code runs.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// The time after a cluster became ready in which nodes register and built-in images are prepared.
const START_DURATION: Duration = Duration::from_secs(20);

/// Waits until the start is over and returns its pages.
pub(super) async fn return_after_start() {
    tokio::time::sleep(START_DURATION).await;
    if let Err(error) = return_pages() {
        tracing::debug!(%error, "the pages of the program's code stay resident");
    }
}

#[expect(unsafe_code, reason = "madvise has no safe wrapper")]
fn return_pages() -> io::Result<()> {
    let program = std::fs::read_link("/proc/self/exe")?;
    for range in code(&std::fs::read_to_string("/proc/self/maps")?, &program) {
        // SAFETY: the range is a mapping of the program's file that is never written, so that the kernel can read each
        // dropped page from the file again.
        let outcome = unsafe { libc::madvise(range.start as *mut _, range.len(), libc::MADV_DONTNEED) };
        if outcome != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The address ranges of the program's code, from the lines of `/proc/PID/maps`.
fn code(maps: &str, program: &Path) -> Vec<Range<usize>> {
    let range = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let is_code = words.next()? == "r-xp";
        let path = words.nth(3)?;
        let is_program = line.get(line.find(path)?..).map(Path::new) == Some(program);
        let number = |digits| usize::from_str_radix(digits, 16).ok();
        (is_code && is_program).then_some(number(start)?..number(end)?)
    };
    maps.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unwritable_code_of_the_program_is_returned_cli_1() {
        let maps = "\
            55d000001000-55d000002000 r--p 00000000 fe:00 7                          /opt/my tools/podium\n\
            55d000002000-55d000009000 r-xp 00001000 fe:00 7                          /opt/my tools/podium\n\
            55d000009000-55d00000a000 rw-p 00008000 fe:00 7                          /opt/my tools/podium\n\
            55d00000a000-55d00000b000 rwxp 00008000 fe:00 7                          /opt/my tools/podium\n\
            7f0000000000-7f0000001000 r-xp 00000000 fe:00 9                          /usr/lib/libc.so.6\n\
            7f0000001000-7f0000002000 r-xp 00000000 00:00 0                          [vdso]\n\
            7f0000002000-7f0000003000 r-xp 00000000 00:00 0\n\
            nonsense\n";
        assert_eq!(code(maps, Path::new("/opt/my tools/podium")), [0x55d000002000..0x55d000009000]);
        assert!(code(maps, Path::new("/opt/my")).is_empty());
    }

    /// The code runs on when its pages are gone.
    #[test]
    fn returned_pages_are_read_again_cli_1() {
        return_pages().unwrap();
        assert!(
            !code(&std::fs::read_to_string("/proc/self/maps").unwrap(), &std::env::current_exe().unwrap())
                .is_empty()
        );
    }
}
