//! The entrypoint of postgres: it initialises an empty data directory with the user, password and database from the
//! environment, and runs the server as the user `postgres`.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::account::ServerAccount;
use super::settings::setting;
use super::{at, command, complete, find, has_own_mounts, real_path, scripts, shared_loopback, unmark};

/// The arguments with which the program only prints information.
const INFORMATION: &[&str] = &["-?", "--help", "--describe-config", "-V", "--version"];
/// The directory of the server's socket.
const SOCKETS: &str = "/run/postgresql";

/// The settings of a new database, from the environment.
#[derive(Debug, PartialEq, Eq)]
struct Settings {
    user: String,
    password: Option<String>,
    database: String,
    initdb_arguments: Vec<String>,
    wal_directory: Option<String>,
    authentication: Option<String>,
}

impl Settings {
    fn read() -> io::Result<Self> {
        let user = setting("POSTGRES_USER")?.unwrap_or_else(|| "postgres".to_owned());
        let arguments = setting("POSTGRES_INITDB_ARGS")?.unwrap_or_default();
        Ok(Self {
            password: setting("POSTGRES_PASSWORD")?,
            database: setting("POSTGRES_DB")?.unwrap_or_else(|| user.clone()),
            user,
            initdb_arguments: arguments.split_whitespace().map(str::to_owned).collect(),
            wal_directory: setting("POSTGRES_INITDB_WALDIR")?,
            authentication: setting("POSTGRES_HOST_AUTH_METHOD")?,
        })
    }

    /// Refuses to create a database that every client could enter without a password, unless the settings ask for that.
    fn check(&self) -> io::Result<()> {
        if self.password.is_none() && self.authentication.as_deref() != Some("trust") {
            return Err(io::Error::other(
                "database is uninitialized and the superuser has no password: set POSTGRES_PASSWORD to a value that \
                 is not empty, or POSTGRES_HOST_AUTH_METHOD=trust to let every client in without a password",
            ));
        }
        Ok(())
    }
}

/// One server: its files, and the user that it runs as.
struct Server {
    /// The machine's directory with PostgreSQL's programs.
    programs: PathBuf,
    data: PathBuf,
    sockets: PathBuf,
    account: Option<ServerAccount>,
}

/// Returns the server's command, after initialising its data directory.
pub(super) fn prepare(words: &[String]) -> io::Result<Command> {
    if words.iter().any(|word| INFORMATION.contains(&word.as_str())) {
        return Ok(command(words, None));
    }
    if rustix::process::geteuid().is_root() && !has_own_mounts() {
        return Err(io::Error::other(
            "postgres refuses to run as root, and on a node without mount namespaces only root can access a \
             container's files; run podium as an ordinary user, or leave \"namespaces\" on in its config file",
        ));
    }
    let server = Server::find()?;
    server.own_directories()?;
    if !server.data.join("PG_VERSION").exists() {
        server.initialize(&Settings::read()?, words)?;
    }
    let mut own = vec![words[0].clone(), "-D".to_owned(), server.data.display().to_string()];
    if server.sockets != Path::new(SOCKETS) {
        own.extend(["-k".to_owned(), server.sockets.display().to_string()]);
    }
    if let Some(address) = shared_loopback() {
        own.extend(["-c".to_owned(), format!("listen_addresses={address}")]);
    }
    own.extend(words[1..].iter().cloned());
    Ok(command(&own, server.account.as_ref()))
}

impl Server {
    fn find() -> io::Result<Self> {
        let missing = || io::Error::other("postgres is not installed on this machine");
        let program = find("postgres").ok_or_else(missing)?.canonicalize()?;
        let data = std::env::var("PGDATA").unwrap_or_else(|_| "/var/lib/postgresql/data".to_owned());
        Ok(Self {
            programs: program.parent().map(Path::to_path_buf).unwrap_or_default(),
            data: data_directory(&data),
            sockets: real_path(SOCKETS),
            account: ServerAccount::instead_of_root("postgres")?,
        })
    }

    fn own_directories(&self) -> io::Result<()> {
        for (directory, mode) in [(&self.data, 0o700), (&self.sockets, 0o3775)] {
            fs::create_dir_all(directory).map_err(|error| at(directory, &error))?;
            unmark(directory)?;
            // An error is ignored: a volume of another user works as it is if the server may write to it.
            let _ = fs::set_permissions(directory, fs::Permissions::from_mode(mode));
            if let Some(account) = &self.account {
                account.take(directory)?;
            }
        }
        Ok(())
    }

    fn program(&self, name: &str, arguments: &[&str]) -> Command {
        let path = self.programs.join(name).display().to_string();
        let arguments = arguments.iter().map(|&argument| argument.to_owned());
        let words: Vec<String> = std::iter::once(path).chain(arguments).collect();
        command(&words, self.account.as_ref())
    }

    fn initialize(&self, settings: &Settings, words: &[String]) -> io::Result<()> {
        settings.check()?;
        self.initdb(settings)?;
        self.configure(settings)?;
        self.start_alone(words)?;
        let filled = self.fill(settings);
        let data = self.data.display().to_string();
        let stopped = complete(&mut self.program("pg_ctl", &["-D", &data, "-m", "fast", "-w", "stop"]));
        filled.and(stopped)?;
        println!("PostgreSQL init process complete; ready for start up.");
        Ok(())
    }

    fn initdb(&self, settings: &Settings) -> io::Result<()> {
        let data = self.data.display().to_string();
        let mut initdb = self.program("initdb", &["-D", &data, "--username", &settings.user]);
        // The password is passed in a file that only the server's user can read, never in arguments, which other users
        // can see.
        let password = self.sockets.join(".password");
        if let Some(text) = &settings.password {
            fs::write(&password, format!("{text}\n")).map_err(|error| at(&password, &error))?;
            fs::set_permissions(&password, fs::Permissions::from_mode(0o600))?;
            if let Some(account) = &self.account {
                account.take(&password)?;
            }
            initdb.arg("--pwfile").arg(&password);
        }
        if let Some(directory) = &settings.wal_directory {
            let directory = Path::new(directory);
            fs::create_dir_all(directory).map_err(|error| at(directory, &error))?;
            if let Some(account) = &self.account {
                account.take(directory)?;
            }
            initdb.arg("--waldir").arg(directory);
        }
        initdb.args(&settings.initdb_arguments);
        let done = complete(&mut initdb);
        if settings.password.is_some() {
            fs::remove_file(&password)?;
        }
        done
    }

    /// Configures the server to accept clients in other pods, with a password unless the settings choose another
    /// method.
    fn configure(&self, settings: &Settings) -> io::Result<()> {
        let default = || {
            let data = self.data.display().to_string();
            let output = self.program("postgres", &["-D", &data, "-C", "password_encryption"]).output()?;
            Ok::<_, io::Error>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let authentication = settings.authentication.clone().map_or_else(default, Ok)?;
        self.append("pg_hba.conf", &format!("\nhost all all all {authentication}\n"))?;
        self.append("postgresql.conf", "\nlisten_addresses = '*'\n")
    }

    fn append(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.data.join(name);
        let file = fs::File::options().append(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| at(&path, &error))
    }

    /// Starts the server for this process alone: no other pod can connect before the database is complete.
    fn start_alone(&self, words: &[String]) -> io::Result<()> {
        let quoted = words[1..].iter().map(|word| format!("'{}'", word.replace('\'', "'\\''")));
        let own = ["-c".to_owned(), "listen_addresses=''".to_owned(), "-k".to_owned()];
        let sockets = self.sockets.display().to_string();
        let options: Vec<String> = quoted.chain(own).chain([sockets]).collect();
        let data = self.data.display().to_string();
        let arguments = ["-D", &data, "-o", &options.join(" "), "-w", "start"];
        complete(self.program("pg_ctl", &arguments).stdin(Stdio::null()))
    }

    fn fill(&self, settings: &Settings) -> io::Result<()> {
        if settings.database != "postgres" {
            let mut psql = self.psql(settings, "postgres");
            psql.arg("--set").arg(format!("db={}", settings.database)).stdin(Stdio::piped());
            let mut running = psql.spawn().map_err(|error| at(Path::new("psql"), &error))?;
            if let Some(mut input) = running.stdin.take() {
                input.write_all(b"CREATE DATABASE :\"db\";\n")?;
            }
            let status = running.wait()?;
            if !status.success() {
                return Err(io::Error::other(format!(
                    "cannot create database {:?}: {status}",
                    settings.database
                )));
            }
        }
        scripts::run_all(
            || self.psql(settings, &settings.database),
            |words| command(words, self.account.as_ref()),
        )
    }

    fn psql(&self, settings: &Settings, database: &str) -> Command {
        let sockets = self.sockets.display().to_string();
        let arguments = ["-v", "ON_ERROR_STOP=1", "--no-psqlrc", "--no-password", "--host", &sockets];
        let mut psql = self.program("psql", &arguments);
        psql.args(["--username", &settings.user, "--dbname", database]);
        psql.env_remove("PGHOST").env_remove("PGPASSWORD");
        psql
    }
}

/// Returns the real path of the data directory, which may be below the image's own directory.
fn data_directory(data: &str) -> PathBuf {
    let own = "/var/lib/postgresql/data";
    match Path::new(data).strip_prefix(own) {
        Ok(below) if below.as_os_str().is_empty() => real_path(own),
        Ok(below) => real_path(own).join(below),
        Err(_) => real_path(data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_database_needs_a_password_or_trust_img_2() {
        let settings = |password: Option<&str>, authentication: Option<&str>| Settings {
            user: "postgres".to_owned(),
            password: password.map(str::to_owned),
            database: "postgres".to_owned(),
            initdb_arguments: Vec::new(),
            wal_directory: None,
            authentication: authentication.map(str::to_owned),
        };
        assert!(settings(Some("x"), None).check().is_ok());
        assert!(settings(None, Some("trust")).check().is_ok());
        let error = settings(None, Some("md5")).check().unwrap_err().to_string();
        assert!(
            error.contains("set POSTGRES_PASSWORD") && error.contains("POSTGRES_HOST_AUTH_METHOD=trust"),
            "{error}"
        );
    }
}
