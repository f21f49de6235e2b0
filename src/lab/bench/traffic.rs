//! Both ends of the connections that `podium-lab bench network` measures: an internal program of this binary, run in
//! pods and outside.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fabric::preflight::PreflightFabric;
use serde::{Deserialize, Serialize};

use super::report::percentile_micros;

/// The name of this internal program.
pub(crate) const PROGRAM: &str = "bench-traffic";
/// Bytes per write.
const BLOCK: usize = 128 << 10;
/// Timeout to connect, and of each read and write.
const IO_TIMEOUT: Duration = Duration::from_secs(10);
/// A client's requests to the server: discard everything that the client sends, or return one byte.
const SINK: u8 = b's';
const BYTE: u8 = b'b';

/// Measurements of a client, a line of JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TrafficResult {
    /// Throughput of one connection.
    pub(super) bytes_per_second: f64,
    /// Connections per second, one after the other, with one byte in each direction.
    pub(super) connections_per_second: f64,
    /// The median time of such a connection, in microseconds.
    pub(super) connection_micros: f64,
}

/// Runs one of the commands of `podium-lab bench-traffic`. `serve PORT` serves and prints the port.
/// `ask HOST:PORT SECONDS` is the client: it prints its measurements, each of which takes this time, as JSON.
/// `leaves COUNT` prints the seconds for creating the networks of this many pods. `rules` prints the measurements of
/// the kernel's rules as JSON. The process must have one thread.
pub(crate) fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<String> = arguments.into_iter().filter_map(|text| text.into_string().ok()).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", port] => port.parse().context("the port").and_then(serve),
        ["ask", address, seconds] => seconds.parse().context("the seconds").and_then(|seconds| {
            let found = measure(address, Duration::try_from_secs_f64(seconds)?)?;
            println!("{}", serde_json::to_string(&found)?);
            Ok(())
        }),
        ["leaves", count] => count.parse().context("the count").and_then(|count| {
            println!("{}", make_leaves(count)?.as_secs_f64());
            Ok(())
        }),
        ["rules"] => super::rules::measure().and_then(|found| {
            println!("{}", serde_json::to_string(&found)?);
            Ok(())
        }),
        _ => Err(anyhow::anyhow!("serve PORT, ask HOST:PORT SECONDS, leaves COUNT, or rules")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-traffic: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Creates this many leaves, one after the other.
fn make_leaves(count: u8) -> Result<Duration> {
    let trial = PreflightFabric::start()?;
    let start = Instant::now();
    let leaves: Result<Vec<_>, _> = (0..count).map(|number| trial.leaf(number)).collect();
    let took = start.elapsed();
    leaves?;
    Ok(took)
}

fn serve(port: u16) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept()?;
        // Each connection has a thread, which ends when the client closes the connection.
        thread::spawn(move || respond(stream));
    }
}

fn respond(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    let mut wish = [0];
    stream.read_exact(&mut wish)?;
    if wish == [BYTE] {
        return stream.write_all(&wish);
    }
    let mut block = vec![0; BLOCK];
    while stream.read(&mut block)? > 0 {}
    // The response shows the client that all data has arrived.
    stream.write_all(&wish)
}

fn measure(address: &str, each: Duration) -> Result<TrafficResult> {
    let address = address.to_socket_addrs()?.next().with_context(|| format!("no address of {address}"))?;
    let connect = || -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&address, IO_TIMEOUT)?;
        stream.set_read_timeout(Some(IO_TIMEOUT))?;
        stream.set_write_timeout(Some(IO_TIMEOUT))?;
        Ok(stream)
    };
    // A pod's mirror address on the machine appears a moment after the pod.
    let started = Instant::now();
    let mut stream = loop {
        match connect() {
            Ok(stream) => break stream,
            Err(error) if started.elapsed() > IO_TIMEOUT => return Err(error).context("connect"),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    };
    let (block, started) = (vec![0; BLOCK], Instant::now());
    stream.write_all(&[SINK])?;
    let mut sent = 0;
    while started.elapsed() < each {
        stream.write_all(&block)?;
        sent += block.len();
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.read_exact(&mut [0])?;
    let bytes_per_second = sent as f64 / started.elapsed().as_secs_f64();

    let (started, mut taken) = (Instant::now(), Vec::new());
    while started.elapsed() < each {
        let one = Instant::now();
        let mut stream = connect()?;
        stream.write_all(&[BYTE])?;
        let mut got = Vec::new();
        stream.read_to_end(&mut got)?;
        if got != [BYTE] {
            bail!("another server answers at {address}");
        }
        taken.push(one.elapsed());
    }
    let connections_per_second = taken.len() as f64 / started.elapsed().as_secs_f64();
    Ok(TrafficResult {
        bytes_per_second,
        connections_per_second,
        connection_micros: percentile_micros(&mut taken, 0.5),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_understand_each_other_perf_1() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                thread::spawn(move || respond(stream));
            }
        });
        let found = measure(&address, Duration::from_millis(20)).unwrap();
        assert!(found.bytes_per_second > 0.0 && found.connections_per_second > 0.0, "{found:?}");
        assert!(found.connection_micros > 0.0);
    }
}
