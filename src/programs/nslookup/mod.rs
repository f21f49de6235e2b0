//! `nslookup` for containers on machines without one: resolves and prints as busybox's does (NET-3).
//!
//! `nslookup NAME [SERVER]` resolves as libc would: the hosts file, then the servers and search domains of resolv.conf.
//! `nslookup -type=TYPE NAME` prints records. It exits with 1 if the name does not resolve, which `until nslookup …`
//! waits for.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use base::optional_file::read_optional;
use base::resolv_conf::ResolvConf;
use object::low_ports::LowPorts;

const SERVER_TIMEOUT: Duration = Duration::from_secs(2);
/// The number of rounds over all servers.
const ROUNDS: usize = 2;
const USAGE: &str = "usage: nslookup [-type=TYPE] HOST [DNS_SERVER]";

/// Runs the program; the exit code is busybox'.
pub(super) fn run(arguments: &[String]) -> ExitCode {
    let lookup = match LookupArguments::parse(arguments) {
        Ok(lookup) => lookup,
        Err(wrong) => {
            eprintln!("nslookup: {wrong}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let read = |path: PathBuf| read_optional(path);
    let mut resolver = Resolver {
        conf: ResolvConf::parse(&read(file("PODIUM_RESOLV_CONF", "/etc/resolv.conf"))),
        hosts: read(file("PODIUM_HOSTS", "/etc/hosts")),
        low_ports: LowPorts::read(std::env::var(LowPorts::VARIABLE).ok().as_deref()),
        port: None,
    };
    if let Some(server) = &lookup.server {
        let (ip, port) = match resolver.server(server) {
            Ok(found) => found,
            Err(error) => {
                eprintln!("nslookup: {error}");
                return ExitCode::FAILURE;
            }
        };
        resolver.conf.nameservers = vec![ip.to_string()];
        resolver.port = port;
    }
    let (text, outcome) = match lookup.type_ {
        None => resolver.show_host(&lookup.name),
        Some(type_) => resolver.show_records(&lookup.name, type_),
    };
    // The reader may have closed the pipe.
    let _ = io::stdout().write_all(text.as_bytes());
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nslookup: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the path of a pod's file; without a mount namespace, an environment variable contains it.
fn file(variable: &str, usual: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| Path::new(usual).to_path_buf(), PathBuf::from)
}

/// The query of the command line.
#[derive(Debug, PartialEq, Eq)]
struct LookupArguments {
    name: String,
    server: Option<String>,
    /// The type of the records to print; `None` prints the addresses of a host.
    type_: Option<RecordType>,
}

impl LookupArguments {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let (mut words, mut type_) = (Vec::new(), None);
        for argument in arguments {
            let Some(option) = argument.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
                words.push(argument.clone());
                continue;
            };
            let value = ["type=", "query=", "querytype=", "q="].iter().find_map(|p| option.strip_prefix(p));
            if let Some(value) = value {
                let known = value.to_ascii_uppercase().parse();
                type_ = Some(known.map_err(|_| format!("invalid query type {value:?}"))?);
            }
            // Other options tune behavior that needs no tuning here.
        }
        let mut words = words.into_iter();
        let name = words.next().filter(|name| !name.is_empty()).ok_or("missing host name")?;
        let server = words.next();
        if words.next().is_some() {
            return Err("too many arguments".into());
        }
        Ok(Self { name, server, type_ })
    }
}

struct Resolver {
    conf: ResolvConf,
    hosts: String,
    low_ports: LowPorts,
    /// The port of the servers, if the command line states one.
    port: Option<u16>,
}

/// The outcome of a query.
enum Outcome {
    Found(Vec<Record>),
    /// The name exists, but has no record of that type.
    Nothing,
    NoName,
}

impl Resolver {
    /// Parses a server: `HOST`, `IP` or `IP:PORT`.
    fn server(&self, text: &str) -> Result<(IpAddr, Option<u16>), String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok((address.ip(), Some(address.port())));
        }
        let found = text.parse().ok().or_else(|| self.addresses(text).first().copied());
        found.map(|ip| (ip, None)).ok_or_else(|| format!("can't resolve '{text}'"))
    }

    /// Looks up and formats the addresses of a host, each with its name from the reverse lookup.
    fn show_host(&self, name: &str) -> (String, Result<(), String>) {
        let mut text = String::new();
        if let Some(server) = self.conf.servers().next() {
            let _ = writeln!(text, "{:<10} {server}", "Server:");
            let _ = writeln!(text, "Address 1: {}\n", self.with_name(server));
        }
        let addresses = self.addresses(name);
        if addresses.is_empty() {
            return (text, Err(format!("can't resolve '{name}'")));
        }
        let _ = writeln!(text, "{:<10} {name}", "Name:");
        for (number, ip) in addresses.into_iter().enumerate() {
            let _ = writeln!(text, "Address {}: {}", number + 1, self.with_name(ip));
        }
        (text, Ok(()))
    }

    fn with_name(&self, ip: IpAddr) -> String {
        let in_hosts =
            self.host_lines().find(|(known, _)| *known == ip).and_then(|(_, names)| names.into_iter().next());
        let name =
            in_hosts.map(str::to_owned).or_else(|| match self.query(&Name::from(ip), RecordType::PTR) {
                Ok(Outcome::Found(records)) => records.iter().find_map(|record| match &record.data {
                    RData::PTR(name) => Some(name.0.to_ascii().trim_end_matches('.').to_owned()),
                    _ => None,
                }),
                _ => None,
            });
        name.map_or_else(|| ip.to_string(), |name| format!("{ip} {name}"))
    }

    /// Returns the addresses as libc finds them: the hosts file first, then the servers with every search domain.
    fn addresses(&self, name: &str) -> Vec<IpAddr> {
        if let Ok(ip) = name.parse() {
            return vec![ip];
        }
        let bare = name.trim_end_matches('.');
        let known = self.host_lines().filter(|(_, names)| names.iter().any(|n| n.eq_ignore_ascii_case(bare)));
        let known: Vec<IpAddr> = known.map(|(ip, _)| ip).collect();
        if !known.is_empty() {
            return known;
        }
        for candidate in self.conf.candidates(name) {
            let Ok(candidate) = Name::from_ascii(&candidate) else { continue };
            let mut found = Vec::new();
            for type_ in [RecordType::A, RecordType::AAAA] {
                match self.query(&candidate, type_) {
                    Ok(Outcome::Found(records)) => found.extend(records.iter().filter_map(address)),
                    Ok(Outcome::Nothing) => {}
                    // A name that does not exist has no addresses of the other family either.
                    Ok(Outcome::NoName) | Err(_) => break,
                }
            }
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    fn host_lines(&self) -> impl Iterator<Item = (IpAddr, Vec<&str>)> {
        self.hosts.lines().filter_map(|line| {
            let mut fields = line.split('#').next()?.split_ascii_whitespace();
            Some((fields.next()?.parse().ok()?, fields.collect()))
        })
    }

    /// Looks up and formats the records of one type, with the first search domain that has the name.
    fn show_records(&self, name: &str, type_: RecordType) -> (String, Result<(), String>) {
        let mut text = String::new();
        if let Some(server) = self.conf.servers().next() {
            let _ = writeln!(text, "Server:\t\t{server}\nAddress:\t{}\n", self.socket(server));
        }
        let candidates = match name.parse::<IpAddr>().ok().filter(|_| type_ == RecordType::PTR) {
            Some(address) => vec![Name::from(address).to_ascii()],
            None => self.conf.candidates(name),
        };
        let mut failure = format!("** server can't find {name}: NXDOMAIN");
        for candidate in candidates {
            let Ok(candidate) = Name::from_ascii(&candidate) else { continue };
            match self.query(&candidate, type_) {
                Ok(Outcome::Found(records)) => {
                    for record in &records {
                        line(&mut text, record);
                    }
                    return (text, Ok(()));
                }
                Ok(Outcome::Nothing) => failure = format!("*** Can't find {name}: No answer"),
                Ok(Outcome::NoName) => {}
                Err(error) => failure = format!("{name}: {error}"),
            }
        }
        (text, Err(failure))
    }

    fn socket(&self, server: IpAddr) -> SocketAddr {
        let usual = if server.is_loopback() { self.low_ports.served(53) } else { 53 };
        SocketAddr::new(server, self.port.unwrap_or(usual))
    }

    /// Queries one server after the other until one responds that the name exists or does not exist.
    fn query(&self, name: &Name, type_: RecordType) -> io::Result<Outcome> {
        let mut failure = io::Error::other("no servers could be reached");
        for server in (0..ROUNDS).flat_map(|_| self.conf.servers().take(3)) {
            match exchange(self.socket(server), name, type_) {
                Ok(answer) => match answer.metadata.response_code {
                    ResponseCode::NoError if answer.answers.is_empty() => return Ok(Outcome::Nothing),
                    ResponseCode::NoError => return Ok(Outcome::Found(answer.answers)),
                    ResponseCode::NXDomain => return Ok(Outcome::NoName),
                    other => failure = io::Error::other(other.to_str().to_owned()),
                },
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

fn exchange(server: SocketAddr, name: &Name, type_: RecordType) -> io::Result<Message> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(SERVER_TIMEOUT))?;
    let mut question = Message::query();
    question.metadata.recursion_desired = true;
    question.queries = vec![Query::query(name.clone(), type_)];
    socket.send(&question.to_vec().map_err(io::Error::other)?)?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    // Limit the number of packets: those of strangers must not block this for ever.
    for _ in 0..16 {
        let length = socket.recv(&mut buffer)?;
        if let Ok(answer) = Message::from_vec(&buffer[..length])
            && answer.metadata.id == question.metadata.id
            && answer.metadata.message_type == MessageType::Response
        {
            return Ok(answer);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

fn address(record: &Record) -> Option<IpAddr> {
    match &record.data {
        RData::A(ip) => Some(ip.0.into()),
        RData::AAAA(ip) => Some(ip.0.into()),
        _ => None,
    }
}

/// Adds one record as the newer busybox prints it.
fn line(text: &mut String, record: &Record) {
    let plain = |name: &Name| name.to_ascii().trim_end_matches('.').to_owned();
    let name = plain(&record.name);
    let _ = match &record.data {
        RData::A(ip) => writeln!(text, "Name:\t{name}\nAddress: {ip}"),
        RData::AAAA(ip) => writeln!(text, "Name:\t{name}\nAddress: {ip}"),
        RData::CNAME(target) => writeln!(text, "{name}\tcanonical name = {}", plain(&target.0)),
        RData::PTR(target) => writeln!(text, "{name}\tname = {}", plain(&target.0)),
        RData::NS(target) => writeln!(text, "{name}\tnameserver = {}", plain(&target.0)),
        RData::SRV(srv) => {
            let target = plain(&srv.target);
            writeln!(text, "{name}\tservice = {} {} {} {target}", srv.priority, srv.weight, srv.port)
        }
        RData::TXT(txt) => writeln!(text, "{name}\ttext = \"{txt}\""),
        other => writeln!(text, "{name}\t{} {other}", record.record_type()),
    };
}
