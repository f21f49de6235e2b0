//! The entrypoint of redis and valkey: the server runs as the user `redis` in `/data`, and accepts clients in
//! other pods.

use std::io;
use std::path::Path;
use std::process::Command;

use super::account::ServerAccount;
use super::{command, real_path, shared_loopback, unmark};

/// Returns the server's command, after preparing its directory.
pub(super) fn prepare(mut words: Vec<String>) -> io::Result<Command> {
    let data = real_path("/data");
    unmark(&data)?;
    let account = ServerAccount::instead_of_root("redis")?;
    if let Some(account) = &account
        && data.is_dir()
    {
        account.take(&data)?;
    }
    let file = words.get(1).filter(|word| !word.starts_with('-'));
    let configuration = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let further = defaults(&words, &configuration, shared_loopback().as_deref());
    words.extend(further);
    let mut server = command(&words, account.as_ref());
    if data != Path::new("/data") && data.is_dir() {
        server.current_dir(data);
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    Ok(server)
}

/// Returns the options to add unless the arguments or the configuration file set them: no protected mode, as compiled
/// into the image's server, so that clients in other pods need no password; and the pod's address to listen on, if pods
/// share the machine's loopback interface.
fn defaults(words: &[String], configuration: &str, loopback: Option<&str>) -> Vec<String> {
    let is_set = |name: &str| {
        let option = format!("--{name}");
        let directive =
            |line: &str| line.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case(name));
        words.contains(&option) || configuration.lines().any(directive)
    };
    let mut further = Vec::new();
    if !is_set("protected-mode") {
        further.extend(["--protected-mode".to_owned(), "no".to_owned()]);
    }
    if let Some(address) = loopback.filter(|_| !is_set("bind")) {
        further.extend(["--bind".to_owned(), address.to_owned()]);
    }
    further
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IMG-2: redis accepts clients in other pods unless its user configures otherwise.
    #[test]
    fn the_redis_image_has_no_protected_mode_unless_it_is_set_img_2() {
        let table = [
            ("redis-server", "", None, "--protected-mode no"),
            ("redis-server --port 1", "", None, "--protected-mode no"),
            ("redis-server --protected-mode yes", "", None, ""),
            ("redis-server /r.conf", "# protected-mode yes\nmaxmemory 2mb\n", None, "--protected-mode no"),
            ("redis-server /r.conf", "  Protected-Mode yes\n", None, ""),
            ("redis-server", "", Some("127.1.2.3"), "--protected-mode no --bind 127.1.2.3"),
            ("redis-server --bind ::1", "", Some("127.1.2.3"), "--protected-mode no"),
        ];
        for (words, configuration, loopback, expect) in table {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            assert_eq!(
                defaults(&words, configuration, loopback).join(" "),
                expect,
                "{words:?} {configuration}"
            );
        }
    }
}
