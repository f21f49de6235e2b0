//! A container's view besides the machine's own files: volumes, its pod's files, its image's directories.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::container::{Container, TERMINATION_LOG};
use super::error::os_error;
use super::pod::Pod;
use super::rootfs::{BindMount, UPPER};
use super::system_files::SystemFiles;
use super::{Host, environment};
use crate::RuntimeError;
use crate::protocol::Launch;
use base::layers::Layers;
use base::optional_file::read_optional_bytes;
use base::sort::SliceOrder;
use programs::IMAGE_DIRECTORY;

/// The directory below a container's files in memory where the files of image volumes are mounted first.
const IMAGE_VOLUMES: &str = "image-volumes";

/// Environment: names and values, in order.
type Variables = Vec<(String, String)>;

/// The directories of a container's own files.
#[derive(Clone, Copy)]
pub(super) struct ContainerFiles<'a> {
    /// On disk; created on the first write.
    pub(super) dir: &'a Path,
    /// In memory, where there are namespaces.
    pub(super) private: &'a Path,
    /// Its own /tmp, if it sees one.
    pub(super) tmp: Option<&'a Path>,
    /// The lower layer of its root, if its image is built in.
    pub(super) system: Option<&'a SystemFiles>,
}

impl Host {
    /// Returns the mounts that the container sees besides the machine's files; without namespaces, environment
    /// variables with the sources' paths.
    pub(super) fn bind_mounts(
        &self,
        pod: &Pod,
        launch: &Launch,
        own: ContainerFiles<'_>,
        target: Option<&Container>,
    ) -> Result<(Vec<BindMount>, Variables), RuntimeError> {
        let mut shows = Vec::new();
        let own_mounts = launch.spec.mounts.iter();
        let mounts = target.into_iter().flat_map(|target| &target.launch.spec.mounts).chain(own_mounts);
        let mounts: Vec<_> = mounts.collect();
        // A volume at the same path takes precedence.
        let covered = |path: &Path| mounts.iter().any(|mount| mount.container_path == path);
        for (number, path) in launch.directories.iter().enumerate().filter(|(_, path)| !covered(path)) {
            let source = own.dir.join("directories").join(number.to_string());
            fs::create_dir_all(&source).map_err(os_error("image directory"))?;
            // This file tells the image's program that it may fill the directory, because it is not a volume of the
            // user's.
            fs::write(source.join(IMAGE_DIRECTORY), "").map_err(os_error("image directory"))?;
            shows.push(BindMount::new(source, path.clone()));
        }
        for (number, (path, text)) in launch.files.iter().enumerate().filter(|(_, (path, _))| !covered(path))
        {
            // Without mounts of its own a container sees the machine's files only.
            if self.isolation.namespaces {
                shows.push(BindMount::new(image_file(own.dir, number, text)?, path.clone()));
            }
        }
        for (number, mount) in mounts.iter().enumerate() {
            let image = mount.image.as_ref().map(|image| Layers::new(image.layers.clone()));
            let source = match &image {
                Some(_) => own.private.join(IMAGE_VOLUMES).join(number.to_string()),
                None => mount.host_path.clone(),
            };
            shows.push(BindMount {
                read_only: mount.read_only || image.is_some(),
                image,
                sub_path: mount.sub_path.clone(),
                recursive: mount.recursive,
                ..BindMount::new(source, mount.container_path.clone())
            });
        }
        let variables = shows.iter().map(|show| environment::mount_variable(&show.target, &show.path()));
        let mut env: Vec<_> = variables.collect();
        let termination_log = own.private.join(TERMINATION_LOG);
        if self.isolation.namespaces {
            env.clear();
        } else {
            env.push(("PODIUM_TERMINATION_LOG".to_owned(), termination_log.display().to_string()));
        }
        for (name, place) in [
            ("resolv.conf", "/etc/resolv.conf"),
            ("hosts", "/etc/hosts"),
            ("hostname", "/etc/hostname"),
            ("shm", "/dev/shm"),
        ] {
            let (source, machines) = (pod.private.join(name), Path::new(place));
            let memory = name == "shm";
            if (memory && launch.host_view) || covered(machines) {
                continue;
            }
            if !self.isolation.namespaces && source.exists() {
                // Programs still see the machine's files; the built-in nslookup reads this variable.
                let variable = name.to_ascii_uppercase().replace('.', "_");
                env.push((format!("PODIUM_{variable}"), source.display().to_string()));
            }
            // A container with an image's files gets the machine's file if the pod has none: the image's own would be
            // wrong.
            let of_image = launch.has_image_files() || own.system.is_some();
            let of_machine = (of_image && !source.exists()) || (memory && pod.spec.host.ipc);
            let source = if of_machine { machines.to_path_buf() } else { source };
            if source.exists() && (of_image || machines.exists()) {
                // As in containerd, the container's names are as writable as its root. The kubelet's hosts file is
                // always writable. Root's containers must not write the machine's files. Its shared memory is what
                // `hostIPC` is for.
                let read_only = (launch.spec.security.read_only_root
                    && matches!(name, "resolv.conf" | "hostname"))
                    || (of_machine && !memory);
                shows.push(BindMount { read_only, ..BindMount::new(source, place.into()) });
            }
        }
        if let Some(system) = own.system {
            let of_system = self.system_mounts(launch, system, own.tmp).map_err(os_error("mounts"))?;
            shows.extend(of_system.into_iter().filter(|show| !covered(&show.target)));
        }
        let path = launch.spec.termination_message_path.clone();
        shows.push(BindMount::new(termination_log, path));
        let hidden = |target: &&Container| {
            self.overlays
                || self.hidden.is_some()
                || launch.has_image_files()
                || own.system.is_some()
                || target.dir.starts_with("/tmp")
        };
        if let Some(target) = target.filter(hidden) {
            // The container does not see the target's directories at their paths on the machine, to which TARGET_ROOT
            // and TARGET_LOG refer.
            for path in [&target.dir, &target.private] {
                // The directory does not exist before the target's first write.
                fs::create_dir_all(path).map_err(os_error("target's directory"))?;
                shows.push(BindMount::new(path.clone(), path.clone()));
            }
        }
        // Outer mount points come first: mounted later, they would hide the inner ones.
        shows.order_by_key(|show| show.target.components().count());
        Ok((shows, env))
    }

    /// Returns the mounts of a built-in image besides the machine's system directories: its own /tmp, the machine's
    /// mounts below these directories, and the installation prefixes of its programs. Where the data directory is in
    /// one of them, it is hidden.
    fn system_mounts(
        &self,
        launch: &Launch,
        system: &SystemFiles,
        tmp: Option<&Path>,
    ) -> io::Result<Vec<BindMount>> {
        let mut shows = Vec::new();
        if let Some(tmp) = tmp {
            let read_only = launch.spec.security.read_only_root;
            shows.push(BindMount { read_only, ..BindMount::new(tmp.to_path_buf(), "/tmp".into()) });
        }
        let in_system = |path: &Path| system.directories.iter().any(|shown| path.starts_with(shown));
        let mut points = self.mount_table.borrow_mut().of_machine()?;
        points.retain(|point| in_system(point) && !system.directories.contains(point));
        points.order();
        // A mount is shown with all mounts in it.
        points.dedup_by(|inner, outer| inner.starts_with(&*outer));
        let prefixes = launch.system_root.iter().flatten();
        let prefixes = prefixes.filter(|prefix| prefix.is_absolute() && !in_system(prefix));
        let shown: Vec<PathBuf> = points.into_iter().chain(prefixes.cloned()).collect();
        if let Some(hidden) = &self.hidden
            && system.directories.iter().chain(&shown).any(|path| hidden.directory.starts_with(path))
        {
            let nothing = BindMount::new(hidden.nothing.clone(), hidden.directory.clone());
            shows.push(BindMount { read_only: true, of_system: true, ..nothing });
        }
        shows.extend(shown.into_iter().filter(|path| path.exists()).map(|path| BindMount {
            read_only: true,
            recursive: true,
            of_system: true,
            ..BindMount::new(path.clone(), path)
        }));
        Ok(shows)
    }
}

/// Writes a file of an image; every user may read it.
fn image_file(dir: &Path, number: usize, text: &str) -> Result<PathBuf, RuntimeError> {
    let directory = dir.join("files");
    fs::create_dir_all(&directory).map_err(os_error("image file"))?;
    let path = directory.join(number.to_string());
    fs::write(&path, text).map_err(os_error("image file"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).map_err(os_error("image file"))?;
    Ok(path)
}

/// EPH-3: the variables by which a debug container finds its target's files.
pub(super) fn target_variables(target: &Container) -> Vec<(String, String)> {
    let mut variables = vec![("TARGET_LOG".to_owned(), target.log_path().display().to_string())];
    let mut root = target.private.join("root");
    // The layer holds the files that an image's container has written.
    let written = target.dir.join("layers").join(UPPER);
    let over_machine = target.private.join("layers").join(UPPER);
    if target.launch.has_image_files() && written.exists() {
        root = written;
    } else if !target.launch.has_image_files() && over_machine.exists() {
        root = over_machine;
    }
    if let Some(main) = target.main.get() {
        // The innermost process id is the one that a debug container in the same namespace sees.
        let status = read_optional_bytes(format!("/proc/{}/status", main.as_raw_nonzero()));
        // The process's name may contain any bytes.
        let status = String::from_utf8_lossy(&status);
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let own = main.as_raw_nonzero().to_string();
        let pid = numbers.and_then(|numbers| numbers.split_ascii_whitespace().last()).unwrap_or(&own);
        if target.launch.has_image_files() || target.system_files.is_some() {
            root = format!("/proc/{pid}/root").into();
        }
        variables.push(("TARGET_PID".to_owned(), pid.to_owned()));
    }
    variables.push(("TARGET_ROOT".to_owned(), root.display().to_string()));
    variables
}
