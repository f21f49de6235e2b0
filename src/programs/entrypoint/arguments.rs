//! Resolves a container's arguments to a command: the arguments `--maxmemory 1g` of a redis container are options of
//! its server.

/// A rule for reading the arguments of an image's entrypoint.
#[derive(Debug)]
pub(super) struct Rule {
    image: &'static str,
    /// The names of the image's program; the first one is prepended to arguments that belong to the program.
    pub(super) names: &'static [&'static str],
    own: ProgramArguments,
}

/// The arguments that belong to the image's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgramArguments {
    /// Arguments that begin with an option.
    Options,
    /// Arguments that begin with an option or with a configuration file's name.
    OptionsAndConfiguration,
    /// Arguments that do not begin with the name of a command.
    AllButCommands,
}

const RULES: &[Rule] = &[
    Rule { image: "postgres", names: &["postgres"], own: ProgramArguments::Options },
    Rule {
        image: "redis",
        names: &["redis-server", "valkey-server"],
        own: ProgramArguments::OptionsAndConfiguration,
    },
    Rule { image: "memcached", names: &["memcached"], own: ProgramArguments::Options },
    Rule { image: "php", names: &["php"], own: ProgramArguments::Options },
    Rule { image: "node", names: &["node", "nodejs"], own: ProgramArguments::AllButCommands },
    Rule { image: "curl", names: &["curl"], own: ProgramArguments::AllButCommands },
];

impl Rule {
    /// Returns the rule of an image; `None` if the image has no entrypoint here.
    pub(super) fn of(image: &str) -> Option<&'static Self> {
        RULES.iter().find(|rule| rule.image == image)
    }

    /// Returns the command for these arguments.
    pub(super) fn command_line(
        &self,
        arguments: &[String],
        is_command: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let own = arguments.first().is_none_or(|first| {
            first.starts_with('-')
                || match self.own {
                    ProgramArguments::Options => false,
                    ProgramArguments::OptionsAndConfiguration => {
                        std::path::Path::new(first).extension().is_some_and(|extension| extension == "conf")
                    }
                    ProgramArguments::AllButCommands => !is_command(first),
                }
        });
        let program = own.then(|| self.names[0].to_owned());
        program.into_iter().chain(arguments.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IMG-2: arguments mean what they mean in the image that a built-in one stands for.
    #[test]
    fn arguments_without_a_command_are_the_images_programs_img_2() {
        let table = [
            ("postgres", "", "postgres"),
            ("postgres", "-c max_connections=7", "postgres -c max_connections=7"),
            ("postgres", "postgres -p 1", "postgres -p 1"),
            ("postgres", "sh", "sh"),
            ("postgres", "unknown", "unknown"),
            ("redis", "--maxmemory 1g", "redis-server --maxmemory 1g"),
            ("redis", "/etc/redis.conf --port 7", "redis-server /etc/redis.conf --port 7"),
            ("redis", "redis-cli -h x", "redis-cli -h x"),
            ("memcached", "-m 64", "memcached -m 64"),
            ("php", "-v", "php -v"),
            ("php", "script.php", "script.php"),
            ("node", "--version", "node --version"),
            ("node", "server.js", "node server.js"),
            ("node", "sh -c true", "sh -c true"),
            ("curl", "http://web", "curl http://web"),
            ("curl", "-s http://web", "curl -s http://web"),
            ("curl", "sh", "sh"),
        ];
        for (image, arguments, expect) in table {
            let words: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
            let line = Rule::of(image).unwrap().command_line(&words, |name| name == "sh");
            assert_eq!(line.join(" "), expect, "{image} {arguments}");
        }
    }
}
