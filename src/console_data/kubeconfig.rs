//! The user's kubeconfig (CON-16), read as kubectl reads it: `KUBECONFIG` can list several files, of which the first one
//! to name something wins, and paths in a file are relative to it.

use std::env;
use std::fs;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use manifest::ConfigText;

/// Reads a kubeconfig; without a path, kubectl's default one. An error names the file. Reads files.
pub fn read(path: Option<&Path>) -> Result<Kubeconfig, String> {
    match path {
        Some(path) => read_file(path),
        None => read_first(&default_paths()),
    }
}

/// Returns a client's configuration for the current context of a kubeconfig. An error names the file. Reads files.
pub async fn current_context(path: &Path) -> Result<kube::Config, String> {
    let config = kube::Config::from_custom_kubeconfig(read_file(path)?, &KubeConfigOptions::default()).await;
    config.map_err(|error| format!("{}: {error}", path.display()))
}

/// Merges the files that exist. If there is none, the error names the first one and says how to use another.
fn read_first(paths: &[PathBuf]) -> Result<Kubeconfig, String> {
    let mut merged: Option<Kubeconfig> = None;
    for path in paths.iter().filter(|path| path.exists()) {
        let config = read_file(path)?;
        merged = Some(match merged {
            Some(first) => first.merge(config).map_err(|error| format!("{}: {error}", path.display()))?,
            None => config,
        });
    }
    merged.ok_or_else(|| match paths.first() {
        Some(path) => {
            format!("no kubeconfig: {} does not exist; set KUBECONFIG to another file", path.display())
        }
        None => "no kubeconfig: the user has no home directory; set KUBECONFIG to a file".to_owned(),
    })
}

/// The files that `KUBECONFIG` lists, or else `~/.kube/config`.
fn default_paths() -> Vec<PathBuf> {
    let listed = env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<_> = env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    if !listed.is_empty() {
        return listed;
    }
    env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect()
}

fn read_file(path: &Path) -> Result<Kubeconfig, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read the kubeconfig {}: {error}", path.display()))?;
    let text = ConfigText::parse(&text, &path.display().to_string()).map_err(|error| error.to_string())?;
    let mut config: Kubeconfig = text.decode().map_err(|error| error.to_string())?.unwrap_or_default();
    if let Some(directory) = path.parent() {
        resolve_paths(&mut config, directory);
    }
    Ok(config)
}

fn resolve_paths(config: &mut Kubeconfig, directory: &Path) {
    // As for kubectl, an empty path is none.
    let resolve = |path: &mut Option<String>| {
        let given = path.take().filter(|given| !given.is_empty());
        *path = given.map(|given| directory.join(&given).into_os_string().into_string().unwrap_or(given));
    };
    for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        resolve(&mut cluster.certificate_authority);
    }
    for user in config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        resolve(&mut user.client_certificate);
        resolve(&mut user.client_key);
        resolve(&mut user.token_file);
        // A plain name is searched in PATH.
        if let Some(exec) = &mut user.exec
            && exec.command.as_ref().is_some_and(|command| command.contains(MAIN_SEPARATOR))
        {
            resolve(&mut exec.command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_merged_and_their_paths_resolved_con_16() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        let user = |command: &str| {
            format!(
                "users:\n- name: me\n  user: {{client-key: keys/me, client-certificate: /me.crt, tokenFile: '', exec: {{command: {command}}}}}\n"
            )
        };
        fs::write(&first, format!("current-context: a\n{}", user("bin/login"))).unwrap();
        let clusters =
            "clusters: [{name: here, cluster: {server: 'https://h', certificate-authority: ca.crt}}]\n";
        fs::write(&second, format!("current-context: b\n{clusters}{}", user("login"))).unwrap();

        let merged = read_first(&[dir.path().join("absent"), first.clone(), second.clone()]).unwrap();
        assert_eq!(merged.current_context.as_deref(), Some("a"), "the first file wins");
        let below = |name: &str| Some(dir.path().join(name).display().to_string());
        let user = |config: &Kubeconfig| {
            let user = config.auth_infos[0].auth_info.clone().unwrap();
            assert_eq!(user.token_file, None, "an empty path");
            (user.client_key, user.client_certificate, user.exec.unwrap().command)
        };
        let certificate = Some("/me.crt".to_owned());
        assert_eq!(user(&merged), (below("keys/me"), certificate.clone(), below("bin/login")));
        let cluster = merged.clusters[0].cluster.clone().unwrap();
        assert_eq!(cluster.certificate_authority, below("ca.crt"));
        let second = read(Some(&second)).unwrap();
        assert_eq!(user(&second), (below("keys/me"), certificate, Some("login".to_owned())), "found in PATH");

        let absent = dir.path().join("absent").display().to_string();
        let expected = format!("no kubeconfig: {absent} does not exist; set KUBECONFIG to another file");
        assert_eq!(read_first(&[dir.path().join("absent")]).unwrap_err(), expected);
        for (text, problem) in [
            ("clusters: 5\n", ":1:1: clusters: invalid type: integer `5`, expected a sequence"),
            ("contexts:\n- context: {cluster: a}\n", ":2:3: contexts[0]: missing field `name`"),
            ("{ half", ":1:"),
        ] {
            fs::write(&first, text).unwrap();
            let error = read_first(std::slice::from_ref(&first)).unwrap_err();
            assert!(error.starts_with(&format!("{}{problem}", first.display())), "{error}");
        }
        fs::write(&first, "").unwrap();
        assert!(read(Some(&first)).unwrap().contexts.is_empty());
        assert!(read(Some(dir.path())).unwrap_err().starts_with("cannot read the kubeconfig "));
    }
}
