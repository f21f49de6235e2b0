//! The images everyone's first manifests name, and what stands in for them here (IMG-2).
//!
//! A table: adding an image is one line. Nothing here looks at the machine.

/// The tags of the built-in web servers. There is no `1.91`: the classic typo must fail as it does anywhere.
const WEB_TAGS: &[&str] =
    &["1.7.9", "1.9.1", "1.14.2", "1.16.1", "1.25", "1.27", "latest", "stable", "alpine"];

/// httpd's own versions beside the common ones.
const HTTPD_TAGS: &[&str] = &[
    "2",
    "2.4",
    "2.4-alpine",
    "1.7.9",
    "1.9.1",
    "1.14.2",
    "1.16.1",
    "1.25",
    "1.27",
    "latest",
    "stable",
    "alpine",
];

/// Tools inside this binary for containers that live on the machine's.
pub(super) const TOOLS: &[&str] = &["nslookup"];

/// What runs when a container of a built-in image starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageSource {
    /// A program inside this binary (`podium image-program NAME`).
    Inside(&'static str),
    /// The machine's shell and tools.
    Tools,
    /// A program of the machine, under any of these names.
    HostProgram(&'static [&'static str]),
    /// The command as given, with the machine's own view of its files.
    AsGiven,
}

/// One built-in image.
#[derive(Debug)]
pub(super) struct Builtin {
    /// The repository's last component.
    pub(super) name: &'static str,
    /// The tags that exist; none means every tag.
    pub(super) tags: &'static [&'static str],
    /// What runs.
    pub(super) source: ImageSource,
    /// The image's entrypoint.
    pub(super) entrypoint: &'static [&'static str],
    /// The image's default arguments.
    pub(super) cmd: &'static [&'static str],
    /// Directories the image brings along, private to each container.
    pub(super) directories: &'static [&'static str],
    /// Environment the image sets.
    pub(super) env: &'static [(&'static str, &'static str)],
    /// The working directory.
    pub(super) working_dir: &'static str,
    /// The signal that asks it to end.
    pub(super) stop_signal: i32,
}

const PLAIN: Builtin = Builtin {
    name: "",
    tags: &[],
    source: ImageSource::Tools,
    entrypoint: &[],
    cmd: &["sh"],
    directories: &[],
    env: &[],
    working_dir: "/",
    stop_signal: libc::SIGTERM,
};

const fn tools(name: &'static str, cmd: &'static [&'static str]) -> Builtin {
    Builtin { name, cmd, ..PLAIN }
}

const fn host(
    name: &'static str,
    programs: &'static [&'static str],
    cmd: &'static [&'static str],
) -> Builtin {
    Builtin { name, source: ImageSource::HostProgram(programs), cmd, ..PLAIN }
}

/// Every built-in image.
pub(super) const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "pause",
        source: ImageSource::Inside("pause"),
        entrypoint: &["/pause"],
        cmd: &[],
        ..PLAIN
    },
    Builtin {
        name: "nginx",
        tags: WEB_TAGS,
        source: ImageSource::Inside("nginx"),
        cmd: &["nginx", "-g", "daemon off;"],
        directories: &["/usr/share/nginx/html"],
        stop_signal: libc::SIGQUIT,
        ..PLAIN
    },
    Builtin {
        name: "httpd",
        tags: HTTPD_TAGS,
        source: ImageSource::Inside("httpd"),
        cmd: &["httpd-foreground"],
        directories: &["/usr/local/apache2/htdocs"],
        working_dir: "/usr/local/apache2",
        stop_signal: libc::SIGWINCH,
        ..PLAIN
    },
    tools("busybox", &["sh"]),
    tools("alpine", &["/bin/sh"]),
    tools("debian", &["bash"]),
    tools("ubuntu", &["/bin/bash"]),
    tools("fedora", &["/bin/bash"]),
    tools("centos", &["/bin/bash"]),
    tools("bash", &["bash"]),
    tools("toolbox", &["sh"]),
    tools("netshoot", &["sh"]),
    tools("dnsutils", &["sh"]),
    tools("jessie-dnsutils", &["sh"]),
    host("curl", &["curl"], &["curl", "--help"]),
    host("perl", &["perl"], &["perl", "-de0"]),
    host("python", &["python3", "python"], &["python3"]),
    host("node", &["node", "nodejs"], &["node"]),
    host("ruby", &["ruby"], &["irb"]),
    host("php", &["php"], &["php", "-a"]),
    host("golang", &["go"], &["bash"]),
    host("rust", &["cargo"], &["bash"]),
    host("openjdk", &["java"], &["jshell"]),
    host("git", &["git"], &["git"]),
    host("redis", &["redis-server", "valkey-server"], &["redis-server"]),
    host("valkey", &["valkey-server", "redis-server"], &["valkey-server"]),
    host("memcached", &["memcached"], &["memcached"]),
    host("etcd", &["etcd"], &["etcd"]),
    host("caddy", &["caddy"], &["caddy", "run"]),
    Builtin {
        env: &[("PGDATA", "/var/lib/postgresql/data")],
        directories: &["/var/lib/postgresql/data"],
        stop_signal: libc::SIGINT,
        ..host("postgres", &["postgres"], &["postgres"])
    },
    host("mysql", &["mysqld"], &["mysqld"]),
    host("mariadb", &["mariadbd", "mysqld"], &["mariadbd"]),
    Builtin { name: "host", source: ImageSource::AsGiven, cmd: &[], ..PLAIN },
];

/// Names under which a built-in server is also called (`command: ["httpd", …]`).
pub(super) fn called(program: &str) -> &'static [&'static str] {
    match program {
        "pause" => &["pause", "/pause"],
        "nginx" => &["nginx", "/usr/sbin/nginx", "/docker-entrypoint.sh"],
        "httpd" => &["httpd", "httpd-foreground", "apachectl"],
        _ => &[],
    }
}
