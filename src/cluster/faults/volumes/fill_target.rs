//! Decides if a volume's directory is a file system of its own that may be filled. `survey` collects the facts, and
//! `check_fillable` decides purely.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base::optional_file::read_optional;
use base::sort::CollectMap;
use operators::faults::FillRefusal;
use rustix::fs::{AtFlags, Mode, OFlags, StatxAttributes, StatxFlags, fstat, fstatvfs, open, statx};

/// The reason of a failed step.
pub(super) const FAILED: &str = "Failed";

/// File systems on which writes certainly fail once a file occupies all free space. Not ext2 and ext3, which reserve no
/// blocks (`fallocate`); not btrfs, which stores small files in its metadata; not XFS, which preallocates space for
/// growing files; not network file systems, whose space others share.
const FILLED_FOR_CERTAIN: &[&str] = &["ext4", TMPFS];
/// The file system whose files occupy the machine's memory.
const TMPFS: &str = "tmpfs";
/// At most one part in this many of the available memory is occupied.
const MEMORY_PART: u64 = 4;

/// Directories of the machine: a file system that contains one of them is never filled.
const OF_MACHINES: &[&str] = &[
    "/", "/boot", "/boot/efi", "/dev", "/dev/shm", "/etc", "/home", "/nix", "/opt", "/root", "/run", "/srv",
    "/sys/fs/cgroup", "/tmp", "/usr", "/usr/local", "/var", "/var/cache", "/var/lib", "/var/log", "/var/tmp",
];

/// Returns the refusal for a failed attempt.
pub(super) fn failed(path: &Path, error: &io::Error) -> FillRefusal {
    FillRefusal { reason: FAILED, message: format!("{}: {error}", path.display()) }
}

/// A directory with a file system that may be filled.
#[derive(Debug)]
pub(super) struct FillTarget {
    /// The directory that was checked. Open, so that a path that is replaced meanwhile cannot lead to another file
    /// system.
    pub(super) directory: OwnedFd,
    /// The device of its file system, as in `stat`.
    pub(super) device: u64,
}

/// Directories that mark file systems which are never filled.
#[derive(Debug)]
pub(super) struct ProtectedPaths(Vec<PathBuf>);

impl ProtectedPaths {
    /// Returns the paths of the machine, of a data directory and of this program.
    pub(super) fn of_machine(data_dir: &Path) -> Self {
        let mut all: Vec<PathBuf> = OF_MACHINES.iter().map(PathBuf::from).collect();
        all.push(data_dir.to_owned());
        all.extend(std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned())));
        all.extend(std::env::current_dir());
        all.push(std::env::temp_dir());
        all.extend(std::env::var_os("HOME").map(PathBuf::from));
        Self(all)
    }

    /// Returns a protected path that is this directory, or lies below it.
    fn below(&self, directory: &Path) -> Option<&Path> {
        let is_below = |path: &&PathBuf| {
            path.starts_with(directory) || path.canonicalize().is_ok_and(|real| real.starts_with(directory))
        };
        self.0.iter().find(is_below).map(PathBuf::as_path)
    }

    /// Returns a protected path that lies on this device.
    fn on(&self, device: u64) -> Option<&Path> {
        let lies_there = |path: &&PathBuf| fs::metadata(path).is_ok_and(|about| about.dev() == device);
        self.0.iter().find(lies_there).map(PathBuf::as_path)
    }
}

/// A line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// `MAJOR:MINOR`.
    device: String,
    /// The directory of the file system that is the mount's root.
    root: PathBuf,
    point: PathBuf,
    type_: String,
}

/// The facts about a volume's directory.
#[derive(Debug)]
struct VolumeSurvey<'a> {
    path: &'a Path,
    /// The mount at the directory, or above it.
    mount: &'a Mount,
    /// True if the directory is the mount point of `mount`.
    is_mount_point: bool,
    /// Another mount point of the same file system.
    other_mount: Option<&'a Path>,
    /// A protected path on the same file system.
    guarded: Option<&'a Path>,
    free_bytes: u64,
    /// The available memory, in bytes; none if it is unknown.
    available_memory: Option<u64>,
}

/// Returns a volume's directory if its file system may be filled, else the reason for the refusal.
pub(super) fn survey(path: &Path, guarded: &ProtectedPaths) -> Result<FillTarget, FillRefusal> {
    let failed = |error: io::Error| failed(path, &error);
    let directory = open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let directory = directory.map_err(|error| failed(error.into()))?;
    let device = fstat(&directory).map_err(|error| failed(error.into()))?.st_dev;
    let about = statx(&directory, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
        .map_err(|error| failed(error.into()))?;
    let mounts = mounts(&fs::read_to_string("/proc/self/mountinfo").map_err(failed)?);
    let id = fs::read_to_string(format!("/proc/self/fdinfo/{}", directory.as_raw_fd())).map_err(failed)?;
    let id = id.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    let Some((id, mount)) = id.and_then(|id: u64| Some((id, mounts.get(&id)?))) else {
        return Err(failed(io::Error::other("the mount point of its file system is unknown")));
    };
    let other_mount = mounts.iter().find(|(other, one)| **other != id && one.device == mount.device);
    let space = fstatvfs(&directory).map_err(|error| failed(error.into()))?;
    let found = VolumeSurvey {
        path,
        mount,
        is_mount_point: about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
        other_mount: other_mount.map(|(_, one)| one.point.as_path()),
        guarded: guarded.on(device),
        free_bytes: space.f_bfree.saturating_mul(space.f_frsize),
        available_memory: available_memory(&read_optional("/proc/meminfo")),
    };
    check_fillable(&found)?;
    Ok(FillTarget { directory, device })
}

/// Opens a directory before whose files a gate may be set; an error gives the reason for the refusal.
pub(super) fn directory(path: &Path, guarded: &ProtectedPaths) -> Result<OwnedFd, String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let real = fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).map_err(failed)?;
    match guarded.below(&real) {
        Some(guarded) => {
            Err(format!("{} contains {}, which this machine needs", real.display(), guarded.display()))
        }
        None => Ok(directory),
    }
}

/// The advice for a volume that shares its file system with other directories.
const INSTEAD: &str = "only a volume that is the mount point of its own file system can be filled, such as that of an \
    image file: mount one, and create a PersistentVolume with its path";

/// Decides if the volume may be filled.
fn check_fillable(found: &VolumeSurvey<'_>) -> Result<(), FillRefusal> {
    let (path, point, type_) = (found.path.display(), found.mount.point.display(), &found.mount.type_);
    let refused = |reason, message: String| Err(FillRefusal { reason, message });
    if let Some(guarded) = found.guarded {
        let guarded = guarded.display();
        return refused(
            "NotItsOwnFileSystem",
            format!("{path} is on the file system of {guarded}, which would fill up too; {INSTEAD}"),
        );
    }
    if !found.is_mount_point || found.mount.root != Path::new("/") {
        return refused(
            "NotItsOwnFileSystem",
            format!(
                "{path} is a directory of the file system at {point}, which would fill up too; {INSTEAD}"
            ),
        );
    }
    if let Some(other_mount) = found.other_mount {
        return refused(
            "NotItsOwnFileSystem",
            format!(
                "the file system of {path} is also mounted at {}, which would fill up too",
                other_mount.display()
            ),
        );
    }
    if !FILLED_FOR_CERTAIN.contains(&type_.as_str()) {
        let known = FILLED_FOR_CERTAIN.join(" and ");
        return refused(
            "UnsupportedFileSystem",
            format!("{path} is a file system {type_}; only {known} can be filled reliably"),
        );
    }
    if type_ == TMPFS {
        let most = found.available_memory.unwrap_or_default() / MEMORY_PART;
        if found.free_bytes > most {
            return refused(
                "TooMuchMemory",
                format!(
                    "{path} is in memory and has {} MiB free; at most {} MiB are filled, a quarter of the machine's \
                     available memory",
                    found.free_bytes >> 20,
                    most >> 20
                ),
            );
        }
    }
    Ok(())
}

/// The mounts, by their ids.
fn mounts(mountinfo: &str) -> BTreeMap<u64, Mount> {
    let one = |line: &str| {
        let (mount, about) = line.split_once(" - ")?;
        let fields: Vec<&str> = mount.split(' ').collect();
        let [id, _, device, root, point, ..] = fields[..] else { return None };
        let type_ = about.split(' ').next()?.to_owned();
        let (root, point) = (unescape(root), unescape(point));
        Some((id.parse().ok()?, Mount { device: device.to_owned(), root, point, type_ }))
    };
    mountinfo.lines().filter_map(one).collect_map()
}

/// A path without the kernel's `\040` escapes for field separators.
fn unescape(field: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = field.as_bytes();
    let mut path = Vec::with_capacity(bytes.len());
    while let Some((&first, rest)) = bytes.split_first() {
        let octal = rest.get(..3).filter(|_| first == b'\\');
        let octal = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        let Some(octal) = octal else {
            path.push(first);
            bytes = rest;
            continue;
        };
        path.push(octal);
        bytes = &rest[3..];
    }
    std::ffi::OsString::from_vec(path).into()
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn available_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        30 27 0:5 / /dev rw shared:2 - devtmpfs dev rw\n\
        123 27 7:0 / /mnt/a\\040small\\134disk rw,relatime shared:9 master:2 - ext4 /dev/loop0 rw\n\
        broken line\n";

    #[test]
    fn mounts_are_read_as_the_kernel_tells_them_fault_1() {
        let all = mounts(MOUNTS);
        assert_eq!(all.len(), 3);
        let small = &all[&123];
        assert_eq!((small.device.as_str(), small.type_.as_str()), ("7:0", "ext4"));
        assert_eq!(
            (small.root.as_path(), small.point.as_path()),
            (Path::new("/"), Path::new("/mnt/a small\\disk"))
        );
        assert_eq!(unescape("a\\04"), PathBuf::from("a\\04"));
        assert_eq!(available_memory("MemFree: 1 kB\nMemAvailable:  2048 kB\n"), Some(2 << 20));
        assert_eq!(available_memory("MemAvailable: many"), None);
    }

    #[test]
    fn only_what_is_a_volumes_alone_is_filled_fault_1() {
        let mount = |type_: &str, root: &str| Mount {
            device: "7:0".into(),
            root: root.into(),
            point: "/mnt/v".into(),
            type_: type_.into(),
        };
        let (ext4, part, btrfs, memory) =
            (mount("ext4", "/"), mount("ext4", "/sub"), mount("btrfs", "/"), mount("tmpfs", "/"));
        let found = |mount| VolumeSurvey {
            path: Path::new("/mnt/v"),
            mount,
            is_mount_point: true,
            other_mount: None,
            guarded: None,
            free_bytes: 64 << 20,
            available_memory: Some(256 << 20),
        };
        let check = |found: VolumeSurvey<'_>| {
            check_fillable(&found).map_err(|refusal| (refusal.reason, refusal.message))
        };
        assert_eq!(check(found(&ext4)), Ok(()));
        assert_eq!(check(found(&memory)), Ok(()));
        let refused = |found: VolumeSurvey<'_>, reason: &str, fragments: &[&str]| {
            let (is, message) = check(found).unwrap_err();
            assert_eq!(is, reason, "{message}");
            assert!(fragments.iter().all(|word| message.contains(word)), "{message}");
        };
        let guarded = VolumeSurvey { guarded: Some(Path::new("/home")), ..found(&ext4) };
        refused(guarded, "NotItsOwnFileSystem", &["the file system of /home", "create a PersistentVolume"]);
        let inside = VolumeSurvey { is_mount_point: false, ..found(&ext4) };
        refused(
            inside,
            "NotItsOwnFileSystem",
            &["/mnt/v is a directory of the file system at /mnt/v", INSTEAD],
        );
        refused(found(&part), "NotItsOwnFileSystem", &[INSTEAD]);
        let shared = VolumeSurvey { other_mount: Some(Path::new("/data")), ..found(&ext4) };
        refused(shared, "NotItsOwnFileSystem", &["also mounted at /data,"]);
        refused(found(&btrfs), "UnsupportedFileSystem", &["file system btrfs", "ext4 and tmpfs"]);
        let large = VolumeSurvey { free_bytes: 65 << 20, ..found(&memory) };
        refused(large, "TooMuchMemory", &["65 MiB", "64 MiB"]);
        let unknown = VolumeSurvey { available_memory: None, ..found(&memory) };
        refused(unknown, "TooMuchMemory", &["0 MiB"]);
    }

    #[test]
    fn a_directory_of_the_machine_is_none_that_may_be_filled_fault_1() {
        let place = tempfile::tempdir().unwrap();
        let guarded = ProtectedPaths::of_machine(place.path());
        let refusal = survey(place.path(), &guarded).unwrap_err();
        assert_eq!(refusal.reason, "NotItsOwnFileSystem", "{}", refusal.message);
        assert!(directory(place.path(), &guarded).unwrap_err().contains("which this machine needs"));
        assert!(
            directory(place.path().parent().unwrap(), &guarded).is_err(),
            "nor may the directory above it be filled"
        );
        fs::create_dir(place.path().join("inside")).unwrap();
        assert!(directory(&place.path().join("inside"), &guarded).is_ok());
        for (path, says) in [("gone", "No such file"), ("file", "Not a directory")] {
            fs::write(place.path().join("file"), "").unwrap();
            let refusal = survey(&place.path().join(path), &guarded).unwrap_err();
            assert!(refusal.reason == FAILED && refusal.message.contains(says), "{}", refusal.message);
        }
    }
}
