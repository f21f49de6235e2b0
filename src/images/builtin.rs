//! The images that Podium provides itself, and the repositories they stand for (IMG-2).
//!
//! A table: adding an image is one line. Nothing here looks at the machine.
//!
//! A built-in stands for a repository of docker.io/library, or for one that Kubernetes' documentation uses. Every other
//! name belongs to its owner: only the user may map it to a built-in (`registry.builtin` in the config file).

/// Tools inside this binary for containers that use the machine's tools; each is offered if the machine lacks it.
pub(super) const TOOLS: &[&str] = &["nslookup"];

/// The program that a container of a built-in image runs.
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

/// The reason why a tag of a built-in image is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingTag {
    /// No such image exists anywhere.
    Nonexistent(&'static str),
    /// The image exists, and the built-in one differs too much to stand for it.
    Differs(&'static str),
}

impl MissingTag {
    /// The reason, for messages.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Nonexistent(reason) | Self::Differs(reason) => reason,
        }
    }
}

/// One built-in image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Builtin {
    /// The repositories it stands for, in the form of [`canonical`]. The first one is its name in messages.
    pub(super) names: &'static [&'static str],
    /// Returns the reason why a tag does not exist, or `None` for a tag that does. Without this function every tag
    /// exists.
    pub(super) missing: Option<fn(&str) -> Option<MissingTag>>,
    /// The program to run.
    pub(super) source: ImageSource,
    /// Programs of this binary that its containers call by the names of [`called`], as `docker-entrypoint.sh`.
    pub(super) own_programs: &'static [&'static str],
    /// The user that its server becomes when it is started as root: a name and a home directory.
    pub(super) account: Option<(&'static str, &'static str)>,
    /// Files the image brings along, with their content.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// The image's entrypoint.
    pub(super) entrypoint: &'static [&'static str],
    /// The image's default arguments.
    pub(super) cmd: &'static [&'static str],
    /// Directories the image brings along, private to each container.
    pub(super) directories: &'static [&'static str],
    /// Environment the image sets.
    pub(super) env: &'static [(&'static str, &'static str)],
    /// The variable that holds the version, and its value for tags without a version.
    pub(super) version: Option<(&'static str, &'static str)>,
    /// The user that containers start as: `uid:gid`; none is root.
    pub(super) user: Option<&'static str>,
    /// The working directory.
    pub(super) working_dir: &'static str,
    pub(super) stop_signal: i32,
}

impl Builtin {
    /// The repository that it is called by in messages.
    pub(super) fn name(&self) -> &'static str {
        self.names[0]
    }
}

/// Earlier prefixes of repositories, each with the present prefix.
const MOVED: &[(&str, &str)] = &[
    ("k8s.gcr.io/", KUBERNETES),
    ("gcr.io/google_containers/", KUBERNETES),
    ("gcr.io/google-containers/", KUBERNETES),
    ("gcr.io/google_samples/", SAMPLES),
    ("us-docker.pkg.dev/google-samples/containers/gke/", SAMPLES),
];
const KUBERNETES: &str = "registry.k8s.io/";
const SAMPLES: &str = "gcr.io/google-samples/";

/// A repository's present name, given a familiar one (without `docker.io/library/`).
pub(super) fn canonical(name: &str) -> String {
    let moved = MOVED.iter().find_map(|(old, new)| Some(format!("{new}{}", name.strip_prefix(old)?)));
    moved.unwrap_or_else(|| name.to_owned())
}

/// The built-in image that stands for a repository.
pub(super) fn stands_for(repository: &str) -> Option<&'static Builtin> {
    let name = canonical(repository);
    BUILTINS.iter().find(|image| image.names.contains(&name.as_str()))
}

/// Returns the built-in image whose name has the same last component: the image that a repository stands for if the
/// user maps it to a built-in.
pub(super) fn named_like(repository: &str) -> Option<&'static Builtin> {
    let last = last_component(repository);
    let by_name = |image: &&Builtin| image.names.iter().any(|name| last_component(name) == last);
    stands_for(last).or_else(|| BUILTINS.iter().find(by_name))
}

fn last_component(repository: &str) -> &str {
    repository.rsplit('/').next().unwrap_or(repository)
}

/// Explains versions that tutorials use although no such image exists: `1.91` for a mistyped `1.9.1` in many tutorials,
/// and `1.161` for a mistyped `1.16.1` in the documentation of Deployments.
fn nginx_typos(tag: &str) -> Option<MissingTag> {
    let version = tag.split('-').next().unwrap_or(tag);
    let is_typo = ["1.91", "1.161"]
        .iter()
        .any(|typo| version.strip_prefix(typo).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')));
    let reason = "nginx has no version 1.91 or 1.161; tutorials use them as mistyped versions";
    is_typo.then_some(MissingTag::Nonexistent(reason))
}

fn servers_of_php(tag: &str) -> Option<MissingTag> {
    let is_server = tag.split('-').any(|part| matches!(part, "apache" | "fpm"));
    let reason = "Podium's php has only the command php, not the servers of the apache and fpm variants";
    is_server.then_some(MissingTag::Differs(reason))
}

fn old_python(tag: &str) -> Option<MissingTag> {
    let is_old = tag == "2" || tag.starts_with("2.") || tag.starts_with("2-");
    is_old.then_some(MissingTag::Differs("Podium's python is this machine's Python 3"))
}

const PLAIN: Builtin = Builtin {
    names: &[],
    missing: None,
    source: ImageSource::Tools,
    own_programs: &[],
    account: None,
    files: &[],
    entrypoint: &[],
    cmd: &["sh"],
    directories: &[],
    env: &[],
    version: None,
    user: None,
    working_dir: "/",
    stop_signal: libc::SIGTERM,
};

const fn tools(names: &'static [&'static str], cmd: &'static [&'static str]) -> Builtin {
    Builtin { names, cmd, ..PLAIN }
}

const fn host(
    names: &'static [&'static str],
    programs: &'static [&'static str],
    cmd: &'static [&'static str],
) -> Builtin {
    Builtin { names, source: ImageSource::HostProgram(programs), cmd, ..PLAIN }
}

const fn inside(
    names: &'static [&'static str],
    program: &'static str,
    entrypoint: &'static [&'static str],
) -> Builtin {
    Builtin { names, source: ImageSource::Inside(program), entrypoint, cmd: &[], ..PLAIN }
}

const fn with_entrypoint(programs: &'static [&'static str], image: Builtin) -> Builtin {
    Builtin { own_programs: programs, entrypoint: &["docker-entrypoint.sh"], ..image }
}

const REDIS: Builtin = Builtin {
    account: Some(("redis", "/data")),
    directories: &["/data"],
    working_dir: "/data",
    ..with_entrypoint(
        // A server of the machine that is called directly needs the settings that are compiled into the image's server.
        &["redis-entrypoint", "redis-server-entrypoint"],
        host(&[], &["redis-server", "valkey-server"], &["redis-server"]),
    )
};

const NGINX: Builtin = Builtin {
    cmd: &["nginx", "-g", "daemon off;"],
    directories: &["/usr/share/nginx/html"],
    stop_signal: libc::SIGQUIT,
    ..inside(&["nginx"], "nginx", &[])
};

/// Every built-in image.
pub(super) const BUILTINS: &[Builtin] = &[
    inside(&["pause", "registry.k8s.io/pause"], "pause", &["/pause"]),
    Builtin { missing: Some(nginx_typos), version: Some(("NGINX_VERSION", "1.29.3")), ..NGINX },
    Builtin {
        version: Some(("HTTPD_VERSION", "2.4.65")),
        cmd: &["httpd-foreground"],
        directories: &["/usr/local/apache2/htdocs"],
        working_dir: "/usr/local/apache2",
        stop_signal: libc::SIGWINCH,
        ..inside(&["httpd"], "httpd", &[])
    },
    tools(&["busybox", "registry.k8s.io/busybox"], &["sh"]),
    tools(&["alpine"], &["/bin/sh"]),
    tools(&["debian"], &["bash"]),
    tools(&["ubuntu"], &["/bin/bash"]),
    tools(&["fedora"], &["/bin/bash"]),
    tools(&["centos"], &["/bin/bash"]),
    tools(&["bash"], &["bash"]),
    tools(&["registry.k8s.io/e2e-test-images/jessie-dnsutils"], &["sh"]),
    // Kubernetes' documentation uses these.
    Builtin { names: &["registry.k8s.io/nginx-slim"], env: &[("NGINX_VERSION", "1.27.4")], ..NGINX },
    Builtin {
        env: &[("PORT", "8080")],
        version: Some(("HELLO_APP_VERSION", "1.0.0")),
        ..inside(&["gcr.io/google-samples/hello-app"], "hello-app", &["/hello-app"])
    },
    Builtin {
        cmd: &["apache2-foreground"],
        directories: &["/var/www/html"],
        working_dir: "/var/www/html",
        stop_signal: libc::SIGWINCH,
        ..inside(&["gcr.io/google-samples/gb-frontend"], "gb-frontend", &[])
    },
    Builtin { cmd: &["/server"], ..inside(&["registry.k8s.io/liveness"], "liveness", &[]) },
    Builtin {
        cmd: &["pause"],
        ..inside(&["registry.k8s.io/e2e-test-images/agnhost"], "agnhost", &["/agnhost"])
    },
    inside(
        &[
            "registry.k8s.io/fluentd-elasticsearch", "quay.io/fluentd_elasticsearch/fluentd",
            "gcr.io/fluentd-elasticsearch/fluentd",
        ],
        "fluentd",
        &["/entrypoint.sh"],
    ),
    Builtin {
        files: &[("/.podium/perl/bignum.pm", include_str!("bignum.pm"))],
        env: &[("PERL5LIB", "/.podium/perl")],
        ..host(&["perl"], &["perl"], &["perl", "-de0"])
    },
    Builtin { missing: Some(old_python), ..host(&["python"], &["python3", "python"], &["python3"]) },
    with_entrypoint(&["node-entrypoint"], host(&["node"], &["node", "nodejs"], &["node"])),
    Builtin { env: &[("LANG", "C.UTF-8")], ..host(&["ruby"], &["ruby"], &["irb"]) },
    Builtin {
        missing: Some(servers_of_php),
        ..with_entrypoint(&["php-entrypoint"], host(&["php"], &["php"], &["php", "-a"]))
    },
    Builtin {
        directories: &["/go"],
        env: &[("GOPATH", "/go")],
        working_dir: "/go",
        ..host(&["golang"], &["go"], &["bash"])
    },
    host(&["rust"], &["cargo"], &["bash"]),
    host(&["openjdk"], &["java"], &["jshell"]),
    with_entrypoint(&["curl-entrypoint"], host(&["curlimages/curl"], &["curl"], &["curl", "--help"])),
    Builtin {
        entrypoint: &["git"],
        directories: &["/git"],
        working_dir: "/git",
        ..host(&["alpine/git"], &["git"], &["--help"])
    },
    Builtin { names: &["redis"], ..REDIS },
    Builtin {
        names: &["valkey/valkey"],
        source: ImageSource::HostProgram(&["valkey-server", "redis-server"]),
        ..REDIS
    },
    Builtin {
        // The image's own user, which starts it: memcached refuses to run as root.
        user: Some("11211:11211"),
        ..with_entrypoint(&["memcached-entrypoint"], host(&["memcached"], &["memcached"], &["memcached"]))
    },
    host(&["registry.k8s.io/etcd", "quay.io/coreos/etcd"], &["etcd"], &["etcd"]),
    Builtin {
        account: Some(("postgres", "/var/lib/postgresql")),
        env: &[("PGDATA", "/var/lib/postgresql/data"), ("LANG", "C.UTF-8")],
        directories: &["/var/lib/postgresql/data", "/run/postgresql"],
        stop_signal: libc::SIGINT,
        ..with_entrypoint(&["postgres-entrypoint"], host(&["postgres"], &["postgres"], &["postgres"]))
    },
    Builtin { names: &["host"], source: ImageSource::AsGiven, cmd: &[], ..PLAIN },
];

/// Names by which a container calls a program of this binary (`command: ["httpd", …]`).
pub(super) fn called(program: &str) -> &'static [&'static str] {
    match program {
        "pause" => &["pause", "/pause"],
        "nginx" => &["nginx", "/usr/sbin/nginx", "/docker-entrypoint.sh"],
        "httpd" => &["httpd", "httpd-foreground", "apachectl"],
        "gb-frontend" => &["apache2-foreground"],
        "hello-app" => &["/hello-app", "hello-app"],
        "liveness" => &["/server"],
        "agnhost" => &["/agnhost", "agnhost"],
        "fluentd" => &["/entrypoint.sh", "fluentd"],
        "redis-server-entrypoint" => &["redis-server", "valkey-server"],
        name if name.ends_with("-entrypoint") => {
            &["docker-entrypoint.sh", "/usr/local/bin/docker-entrypoint.sh", "/entrypoint.sh"]
        }
        _ => &[],
    }
}
