//! The password file of a built-in image: the system's accounts, plus the image's, which the machine may lack.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Accounts that the machine lacks get ids up to this one, which the official images use.
const LAST_ID: u32 = 999;

/// Returns the image's password file if it must differ from that of every built-in image (`shown`). It also names the
/// image's own user, and the user that the pod runs as, which programs look up by number. `machine` is the machine's
/// password and group files.
pub fn password_file(
    (name, home): &(String, PathBuf),
    run_as_user: Option<u32>,
    run_as_group: Option<u32>,
    shown: &str,
    machine: [&str; 2],
) -> Option<String> {
    let fields = |line: &str, number: usize| line.split(':').nth(number).map(str::to_owned);
    let ids = |text: &str, number| -> BTreeSet<u32> {
        text.lines().filter_map(|line| fields(line, number)?.parse().ok()).collect()
    };
    let users = ids(shown, 2);
    let taken: BTreeSet<u32> = machine.iter().flat_map(|text| ids(text, 2)).collect();
    let mut text = shown.trim_end_matches('\n').to_owned();
    let mut add = |name: &str, uid: u32, gid: u32, home: &Path| {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{name}:x:{uid}:{gid}::{}:/bin/sh", home.display());
    };
    let has_user = shown.lines().any(|line| fields(line, 0).as_ref() == Some(name));
    let mut own = None;
    if !has_user {
        // An id that is no user's and no group's on the machine: an existing group could have rights here, as the group
        // of a container engine's socket has.
        let is_free = |id: &u32| !taken.contains(id) && Some(*id) != run_as_user;
        own = (1..=LAST_ID).rev().find(is_free);
        if let Some(id) = own {
            add(name, id, id, home);
        }
    }
    let unknown = run_as_user.filter(|uid| !users.contains(uid));
    if let Some(uid) = unknown {
        add(&format!("user-{uid}"), uid, run_as_group.unwrap_or(0), home);
    }
    (own.is_some() || unknown.is_some()).then(|| text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IMG-2: the image's own user exists although the machine has no such user, and no other account has its id.
    #[test]
    fn a_built_in_image_has_its_user_img_2() {
        let account = ("postgres".to_owned(), PathBuf::from("/var/lib/postgresql"));
        let machine = "root:x:0:0:root:/root:/bin/bash\nsystemd:x:998:998::/:/bin/sh\n";
        let group = "root:x:0:\ndocker:x:999:me\n";
        let with = |run_as, passwd: &str| password_file(&account, run_as, None, passwd, [passwd, group]);
        let own = "postgres:x:997:997::/var/lib/postgresql:/bin/sh\n";
        assert_eq!(with(None, machine).unwrap(), format!("{machine}{own}"));
        assert_eq!(with(Some(0), machine).unwrap(), format!("{machine}{own}"));
        let other = "user-1001:x:1001:0::/var/lib/postgresql:/bin/sh\n";
        assert_eq!(with(Some(1001), machine).unwrap(), format!("{machine}{own}{other}"));
        let known = format!("{machine}postgres:x:101:104::/:/bin/sh\n");
        assert_eq!(with(None, &known), None);
        assert_eq!(with(Some(101), &known), None);
        assert_eq!(with(Some(1001), &known).unwrap(), format!("{known}{other}"));
    }
}
