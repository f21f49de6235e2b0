//! Runs the files of `/docker-entrypoint-initdb.d`, once, when a data directory is initialised.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{at, complete, real_path};
use base::sort::SliceOrder;

const DIRECTORY: &str = "/docker-entrypoint-initdb.d";

/// The program that runs a file of the directory.
#[derive(Debug, PartialEq, Eq)]
enum ScriptRunner {
    /// The file itself is a program.
    Program,
    /// The shell.
    Shell,
    /// The database's client.
    Client,
    /// The database's client, which reads the output of this command; the command decompresses the file.
    Unpacked(&'static [&'static str]),
    /// No program: the file is ignored.
    Not,
}

impl ScriptRunner {
    fn of(path: &Path, is_executable: bool) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is = |end: &str| name.ends_with(end);
        if is(".sh") {
            if is_executable { Self::Program } else { Self::Shell }
        } else if is(".sql") {
            Self::Client
        } else if is(".sql.gz") {
            Self::Unpacked(&["gunzip", "-c"])
        } else if is(".sql.xz") {
            Self::Unpacked(&["xzcat"])
        } else if is(".sql.zst") {
            Self::Unpacked(&["zstd", "-dc"])
        } else {
            Self::Not
        }
    }
}

/// Runs the files in the order of their names. `client` returns a command of the database's client that reads
/// statements from its standard input; `user` returns a command that runs a program as the server's user.
pub(super) fn run_all(client: impl Fn() -> Command, user: impl Fn(&[String]) -> Command) -> io::Result<()> {
    let directory = real_path(DIRECTORY);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(&directory, &error)),
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.order();
    for file in files.iter().filter(|file| file.is_file()) {
        let mode = fs::metadata(file).map_err(|error| at(file, &error))?.permissions().mode();
        let text = file.display().to_string();
        let run = ScriptRunner::of(file, mode & 0o111 != 0);
        if run == ScriptRunner::Not {
            println!("docker-entrypoint.sh: ignoring {text}");
            continue;
        }
        println!("docker-entrypoint.sh: running {text}");
        match run {
            ScriptRunner::Program => complete(&mut user(&[text]))?,
            ScriptRunner::Shell => complete(&mut user(&["sh".to_owned(), text]))?,
            ScriptRunner::Client => {
                let content = fs::File::open(file).map_err(|error| at(file, &error))?;
                complete(client().stdin(content))?;
            }
            ScriptRunner::Unpacked(words) => unpack(words, file, client())?,
            ScriptRunner::Not => {}
        }
    }
    Ok(())
}

fn unpack(words: &[&str], file: &Path, mut client: Command) -> io::Result<()> {
    let mut unpacking = Command::new(words[0]).args(&words[1..]).arg(file).stdout(Stdio::piped()).spawn()?;
    if let Some(output) = unpacking.stdout.take() {
        client.stdin(output);
    }
    let done = complete(&mut client);
    // The command holds this process's copy of the pipe open. If the client ended early, the decompressor would
    // otherwise block on the full pipe, and the wait for it with it.
    drop(client);
    let status = unpacking.wait()?;
    done?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{}: {status}", file.display()))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_run_by_their_ending_img_2() {
        let table = [
            ("a.sh", true, ScriptRunner::Program),
            ("a.sh", false, ScriptRunner::Shell),
            ("b.sql", false, ScriptRunner::Client),
            ("b.sql.gz", false, ScriptRunner::Unpacked(&["gunzip", "-c"])),
            ("README", true, ScriptRunner::Not),
            ("c.sql.bak", false, ScriptRunner::Not),
        ];
        for (name, is_executable, expect) in table {
            assert_eq!(ScriptRunner::of(&Path::new("/d").join(name), is_executable), expect, "{name}");
        }
    }
}
