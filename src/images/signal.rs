//! Signals by the names images and users give them.

/// The number of `SIGTERM`, `TERM`, `15` or `SIGRTMIN+3`.
pub fn signal_number(text: &str) -> Option<i32> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let number = match name {
        "HUP" => libc::SIGHUP,
        "INT" => libc::SIGINT,
        "QUIT" => libc::SIGQUIT,
        "ILL" => libc::SIGILL,
        "TRAP" => libc::SIGTRAP,
        "ABRT" | "IOT" => libc::SIGABRT,
        "BUS" => libc::SIGBUS,
        "FPE" => libc::SIGFPE,
        "KILL" => libc::SIGKILL,
        "USR1" => libc::SIGUSR1,
        "SEGV" => libc::SIGSEGV,
        "USR2" => libc::SIGUSR2,
        "PIPE" => libc::SIGPIPE,
        "ALRM" => libc::SIGALRM,
        "TERM" => libc::SIGTERM,
        "STKFLT" => libc::SIGSTKFLT,
        "CHLD" | "CLD" => libc::SIGCHLD,
        "CONT" => libc::SIGCONT,
        "STOP" => libc::SIGSTOP,
        "TSTP" => libc::SIGTSTP,
        "TTIN" => libc::SIGTTIN,
        "TTOU" => libc::SIGTTOU,
        "URG" => libc::SIGURG,
        "XCPU" => libc::SIGXCPU,
        "XFSZ" => libc::SIGXFSZ,
        "VTALRM" => libc::SIGVTALRM,
        "PROF" => libc::SIGPROF,
        "WINCH" => libc::SIGWINCH,
        "IO" | "POLL" => libc::SIGIO,
        "PWR" => libc::SIGPWR,
        "SYS" => libc::SIGSYS,
        other => match (other.strip_prefix("RTMIN"), other.strip_prefix("RTMAX")) {
            // systemd in a container asks for SIGRTMIN+3.
            (Some(rest), _) => libc::SIGRTMIN().checked_add(offset(rest, '+')?)?,
            (_, Some(rest)) => libc::SIGRTMAX().checked_sub(offset(rest, '-')?)?,
            _ => other.parse().ok()?,
        },
    };
    Some(number).filter(|number| (1..=64).contains(number))
}

/// The distance of a real-time signal from the first or last one.
fn offset(rest: &str, sign: char) -> Option<i32> {
    if rest.is_empty() { Some(0) } else { rest.strip_prefix(sign)?.parse().ok() }
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
            ("SIGRTMAX-14", Some(50)),
            ("SIGRTMAX", Some(64)),
            ("SIGURG", Some(23)),
            ("SIGCLD", Some(17)),
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
