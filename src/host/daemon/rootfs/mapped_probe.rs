//! Finds out whether pods can have user namespaces of their own (`hostUsers: false`): tried once at the host's start, not
//! guessed.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::thread::UnshareFlags;

use super::layers::{Marks, WritableLayer, mount_layers};
use super::mapped::{Access, cover};
use super::mount::hold;
use crate::IdRange;
use crate::daemon::program::os_text;
use crate::daemon::user_namespace::NamespaceMaker;
use crate::daemon::{os, pipe_end};
use base::layers::Layers;
use base::optional_file::read_optional;
use base::removal::remove_tree;

/// Tries once, in a child, whether pods can have user namespaces of their own here. The directories are those of
/// containers' files; the error is the reason.
pub(in crate::daemon) fn works(directories: &[&Path]) -> Result<(), String> {
    let whole = |kind: &str| {
        let text = read_optional(format!("/proc/self/{kind}_map"));
        text.split_ascii_whitespace().eq(["0", "0", "4294967295"])
    };
    if !rustix::process::geteuid().is_root() || !whole("uid") || !whole("gid") {
        return Err("podium must run as root of the machine, with all of its user ids".to_owned());
    }
    directories.iter().try_for_each(|directory| {
        let place = directory.join("try-users");
        let worked = in_child(|| try_in(&place)).map_err(|error| {
            let error = os_text(&error);
            format!("files below {} cannot have the pod's owners: {error}", directory.display())
        });
        let _ = remove_tree(&place);
        worked
    })
}

/// Performs the steps of a container's start with an image's files.
fn try_in(place: &Path) -> io::Result<()> {
    let [lower, layers, root] = ["lower", "layers", "root"].map(|name| place.join(name));
    for directory in [&lower, &layers, &root] {
        fs::create_dir_all(directory)?;
    }
    let on_disk = hold(&layers)?;
    let maker = NamespaceMaker::start(IdRange { first: IdRange::COUNT }, || Ok(()), || Ok(()))?;
    let users = maker.users();
    maker.finish()?;
    os::unshare(UnshareFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    cover(&lower, &users, Access::Read)?;
    cover(&layers, &users, Access::Write)?;
    os::create_files_as(users.ids.first)?;
    let [upper, work] = ["upper", "work"].map(|name| layers.join(name));
    fs::create_dir(&upper)?;
    fs::create_dir(&work)?;
    let marks = Marks::OfUsers;
    let writable = WritableLayer { upper: hold(&upper)?, work: hold(&work)? };
    mount_layers(&Layers::new(vec![lower]), Some(&writable), &hold(&root)?, marks)?;
    fs::create_dir(root.join("written"))?;
    let seen = fs::metadata(root.join("written"))?.uid();
    let stored = rustix::fs::statat(&on_disk, "upper/written", rustix::fs::AtFlags::empty())?.st_uid;
    unmount(&root, UnmountFlags::DETACH)?;
    if (seen, stored) == (users.ids.first, 0) {
        return Ok(());
    }
    Err(io::Error::other(format!("a file of user {} is stored as user {stored}'s", users.ids.first)))
}

/// Runs this in a child of this process; returns its error.
fn in_child(act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let (answers, answer) = pipe_end::pipe()?;
    match os::fork()? {
        os::ForkResult::Child => {
            let text = act().err().map(|error| error.to_string()).unwrap_or_default();
            // Success is one byte that is in no text.
            let text = if text.is_empty() { "\0" } else { &text };
            os::exit_now(i32::from(rustix::io::write(&answer, text.as_bytes()).is_err()))
        }
        os::ForkResult::Parent(child) => {
            drop(answer);
            let mut text = String::new();
            fs::File::from(answers).read_to_string(&mut text)?;
            rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty())?;
            if text == "\0" { Ok(()) } else { Err(io::Error::other(text)) }
        }
    }
}
