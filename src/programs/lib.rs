//! The programs of the built-in images: `podium image-program NAME [ARGUMENTS]`.
//!
//! They know nothing of Podium: a program gets its arguments and environment as in any container. The crate also has
//! the programs beside containers in a PID namespace ([`pause::NamespacePrograms`]), which belong to no image.

mod entrypoint;
mod examples;
mod nslookup;
pub mod pause;
mod web;

use std::ffi::OsString;
use std::process::ExitCode;

use web::ServerFlavor;

/// The name of a file that marks a directory as belonging to an image, not to a volume, and as not filled yet.
pub const IMAGE_DIRECTORY: &str = ".podium-image";

/// Programs that can also be called by their own names, through links to this binary or mounts of it.
const CALLED: &[&str] = &["nginx", "httpd", "nslookup"];

/// Returns true if a binary called by this name is to run as one of the programs.
pub fn is_image_program(name: &str) -> bool {
    CALLED.contains(&name)
}

/// Runs a built-in image's program; the arguments begin with its name.
pub fn image_program_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<String> =
        arguments.into_iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let Some((program, arguments)) = arguments.split_first() else {
        eprintln!("image-program: missing name of the program");
        return ExitCode::from(2);
    };
    // The name that `ps` and `pgrep` show.
    if let Ok(name) = std::ffi::CString::new(program.as_str()) {
        let _ = rustix::thread::set_name(&name);
    }
    let result = match program.as_str() {
        "pause" => run(pause::wait()),
        "nginx" => web_server(&ServerFlavor::nginx(), arguments),
        "httpd" => web_server(&ServerFlavor::httpd(), arguments),
        "gb-frontend" => web_server(&ServerFlavor::guestbook(), arguments),
        "hello-app" => run(examples::hello_app()),
        "liveness" => run(examples::liveness()),
        "agnhost" => run(examples::agnhost(arguments)),
        "fluentd" => run(examples::fluentd()),
        "nslookup" => return nslookup::run(arguments),
        // Called as `redis-server` or `valkey-server`, without the image's entrypoint.
        "redis-server-entrypoint" => {
            Err(entrypoint::run("redis", &[&["redis-server".to_owned()], arguments].concat()))
        }
        name if let Some(image) = name.strip_suffix("-entrypoint") => Err(entrypoint::run(image, arguments)),
        other => {
            eprintln!("image-program: unknown program {other:?}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a program with one thread and little memory: hundreds of such processes may run at once.
fn run(program: impl Future<Output = std::io::Result<()>>) -> std::io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(program)
}

fn web_server(flavour: &ServerFlavor, arguments: &[String]) -> std::io::Result<()> {
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("-v") || has("-V") {
        eprintln!("{}", flavour.version_text());
        return Ok(());
    }
    if has("-t") {
        eprintln!("{}: Podium's built-in server reads no configuration file", flavour.program);
        return Ok(());
    }
    if has("-s") || has("-k") {
        return Err(std::io::Error::other(
            "Podium's built-in server accepts no signals on the command line; delete the pod, or kill the process",
        ));
    }
    if has("-c") || has("-f") {
        eprintln!(
            "{}: notice: Podium's built-in server reads no configuration file; serving {}",
            flavour.program, flavour.directory
        );
    }
    run(web::serve(flavour))
}
