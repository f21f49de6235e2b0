//! Resolves a command to a program, and words the errors as runc does.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Program;

/// The program that a command's first word resolves to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResolvedProgram {
    /// A file to execute.
    File(PathBuf),
    /// A program inside this binary.
    Inside(String),
}

/// Looks up a command's first word, in the caller's view of the file system.
pub(super) fn find(
    name: &str,
    search_path: &str,
    aliases: &[(String, Program)],
) -> Result<ResolvedProgram, String> {
    match aliases.iter().find(|(alias, _)| alias == name) {
        Some((_, Program::Inside(program))) => return Ok(ResolvedProgram::Inside(program.clone())),
        Some((_, Program::Path(path))) => return Ok(ResolvedProgram::File(path.clone())),
        None => {}
    }
    if name.contains('/') {
        let path = Path::new(name);
        let about =
            path.metadata().map_err(|error| format!("exec: {name:?}: stat {name}: {}", os_text(&error)))?;
        if about.is_dir() {
            return Err(format!("exec: {name:?}: is a directory"));
        }
        if about.permissions().mode() & 0o111 == 0 {
            return Err(format!("exec: {name:?}: permission denied"));
        }
        return Ok(ResolvedProgram::File(path.to_path_buf()));
    }
    let runnable = |path: &PathBuf| {
        path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    search_path
        .split(':')
        .filter(|directory| !directory.is_empty())
        .map(|directory| Path::new(directory).join(name))
        .find(runnable)
        .filter(|_| !name.is_empty())
        .map(ResolvedProgram::File)
        .ok_or_else(|| format!("exec: {name:?}: executable file not found in $PATH"))
}

/// The operating system's words for an error, in lower case and without a number.
pub(super) fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_and_errors_read_as_runcs() {
        let aliases = [
            ("nginx".to_owned(), Program::Inside("nginx".to_owned())),
            ("python".to_owned(), Program::Path("/opt/python3".into())),
        ];
        let not_executable = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let refused = format!("exec: {not_executable:?}: permission denied");
        let table: &[(&str, Result<ResolvedProgram, &str>)] = &[
            ("nginx", Ok(ResolvedProgram::Inside("nginx".to_owned()))),
            ("python", Ok(ResolvedProgram::File("/opt/python3".into()))),
            ("sh", Ok(ResolvedProgram::File("/bin/sh".into()))),
            ("nope", Err(r#"exec: "nope": executable file not found in $PATH"#)),
            ("", Err(r#"exec: "": executable file not found in $PATH"#)),
            ("/no/pe", Err(r#"exec: "/no/pe": stat /no/pe: no such file or directory"#)),
            ("/etc", Err(r#"exec: "/etc": is a directory"#)),
            (not_executable, Err(&refused)),
        ];
        for (name, expect) in table {
            let found = find(name, "/nowhere:/bin", &aliases);
            assert_eq!(
                found.as_ref().map_err(String::as_str),
                expect.as_ref().map_err(|text| *text),
                "{name}"
            );
        }
    }
}
