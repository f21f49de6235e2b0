//! Signals by the names images and users give them.

/// The number of `SIGTERM`, `TERM`, `15` or `SIGRTMIN+3`.
pub(in crate::kubelet) fn signal_number(text: &str) -> Option<i32> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let number = match name {
        "HUP" => libc::SIGHUP,
        "INT" => libc::SIGINT,
        "QUIT" => libc::SIGQUIT,
        "ABRT" => libc::SIGABRT,
        "KILL" => libc::SIGKILL,
        "USR1" => libc::SIGUSR1,
        "USR2" => libc::SIGUSR2,
        "PIPE" => libc::SIGPIPE,
        "ALRM" => libc::SIGALRM,
        "TERM" => libc::SIGTERM,
        "CONT" => libc::SIGCONT,
        "STOP" => libc::SIGSTOP,
        "TSTP" => libc::SIGTSTP,
        "WINCH" => libc::SIGWINCH,
        "PWR" => libc::SIGPWR,
        other => match other.strip_prefix("RTMIN") {
            // systemd in a container asks for SIGRTMIN+3.
            Some(rest) => {
                let above: i32 = if rest.is_empty() { 0 } else { rest.strip_prefix('+')?.parse().ok()? };
                libc::SIGRTMIN().checked_add(above)?
            }
            None => other.parse().ok()?,
        },
    };
    Some(number).filter(|number| (1..=64).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        let table = [
            ("SIGQUIT", Some(3)),
            ("quit", Some(3)),
            ("9", Some(9)),
            ("SIGRTMIN+3", Some(37)),
            ("RTMIN", Some(34)),
            ("RTMIN+99", None),
            ("0", None),
            ("65", None),
            ("-1", None),
            ("", None),
            ("SIGNOPE", None),
        ];
        for (text, expect) in table {
            assert_eq!(signal_number(text), expect, "{text}");
        }
    }
}
