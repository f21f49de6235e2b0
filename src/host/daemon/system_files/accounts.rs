//! The accounts of a built-in image: those of the machine's system, without passwords and without its people.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base::optional_file::read_optional_bytes;

/// Accounts of people have at least this id, on every distribution since 2012.
const FIRST_PERSON: u32 = 1000;
/// The account without any rights, and its group.
const UNPRIVILEGED: u32 = 65_534;

/// The sources of names that every image can use: the machine's may name services that only it has.
const NAME_SERVICES: &str =
    "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n";

/// Returns the lines of a password file that a built-in image has: the system's accounts, and `own`, as which its
/// containers run, with root's home directory. None has a password.
pub fn accounts_of_system(passwd: &str, own: u32) -> String {
    let mut text = String::new();
    for line in passwd.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, about, home, shell] = fields[..] else { continue };
        let Ok(id) = uid.parse::<u32>() else { continue };
        let is_system = id < FIRST_PERSON || id == UNPRIVILEGED;
        if !is_system && id != own {
            continue;
        }
        let about = if is_system { about } else { "" };
        let home = if id == own { "/root" } else { home };
        text.extend([name, ":x:", uid, ":", gid, ":", about, ":", home, ":", shell, "\n"]);
    }
    text
}

/// Returns the lines of a group file that a built-in image has, with those of their members that it has, too.
fn groups_of_system(group: &str, passwd: &str, own: u32) -> String {
    let names: Vec<&str> = passwd.lines().filter_map(|line| line.split(':').next()).collect();
    let mut text = String::new();
    for line in group.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, gid, members] = fields[..] else { continue };
        let Ok(id) = gid.parse::<u32>() else { continue };
        if id < FIRST_PERSON || id == UNPRIVILEGED || id == own {
            let members: Vec<&str> = members.split(',').filter(|member| names.contains(member)).collect();
            text.extend([name, ":x:", gid, ":", &members.join(","), "\n"]);
        }
    }
    text
}

/// Writes the files of accounts, and returns the texts of `passwd` and `group`.
pub(super) fn write(machine: &Path, etc: &Path) -> io::Result<(String, String)> {
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // Names of people may be in any encoding.
    let read = |name: &str| read_optional_bytes(machine.join(name));
    let passwd = accounts_of_system(&String::from_utf8_lossy(&read("passwd")), own.0);
    let group = groups_of_system(&String::from_utf8_lossy(&read("group")), &passwd, own.1);
    let mut shadow = String::new();
    for name in passwd.lines().filter_map(|line| line.split(':').next()) {
        // No password opens it.
        shadow.extend([name, ":*:::::::\n"]);
    }
    for (name, text) in
        [("passwd", &*passwd), ("group", &group), ("shadow", &shadow), ("nsswitch.conf", NAME_SERVICES)]
    {
        fs::write(etc.join(name), text)?;
    }
    fs::set_permissions(etc.join("shadow"), fs::Permissions::from_mode(0o640))?;
    Ok((passwd, group))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IMG-2: a built-in image has the system's accounts, and nothing about the machine's people.
    #[test]
    fn accounts_of_people_are_left_out_img_2() {
        let passwd = "root:hash:0:0:root:/root:/bin/bash\nwww-data:x:33:33::/var/www:/usr/sbin/nologin\n\
            ann:x:1000:1000:Ann Other,5551234:/home/ann:/bin/zsh\nbob:x:1001:1001:Bob:/home/bob:/bin/sh\n\
            nobody:x:65534:65534::/:/bin/false\nshort:x:1\nodd:x:no:0:::\n";
        let system = "root:x:0:0:root:/root:/bin/bash\nwww-data:x:33:33::/var/www:/usr/sbin/nologin\n";
        let last = "nobody:x:65534:65534::/:/bin/false\n";
        assert_eq!(accounts_of_system(passwd, 0), format!("{system}{last}"));
        let shown = accounts_of_system(passwd, 1001);
        assert_eq!(shown, format!("{system}bob:x:1001:1001::/root:/bin/sh\n{last}"));
        let group = "root:x:0:\nsudo:hash:27:ann,bob\nann:x:1000:\nbob:x:1001:ann\nnogroup:x:65534:\n";
        let groups = groups_of_system(group, &shown, 1001);
        assert_eq!(groups, "root:x:0:\nsudo:x:27:bob\nbob:x:1001:\nnogroup:x:65534:\n");
    }
}
