//! What commands that serve the browser on this machine share: a request's head, and answers.
//!
//! They listen on the loopback address alone, answer what they know and nothing else, and wait for nobody for long.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use super::Failure;

/// Longest head of a request.
const HEAD: u64 = 1 << 16;
/// How long one connection may keep silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Listens on a port of this machine; returns the port, which the system chooses where 0 is asked for.
///
/// # Errors
/// Somebody listens there already.
pub(super) fn listen(port: u16, command: &str) -> Result<(TcpListener, u16), Failure> {
    let busy = |e: io::Error| {
        Failure::run(format!(
            "port {port} of this machine: {e}\n  what to do: end what listens there, another `{command}` perhaps"
        ))
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(busy)?;
    let port = listener.local_addr().map_err(busy)?.port();
    Ok((listener, port))
}

/// The head of a request, as far as it counts.
#[derive(Debug, Default)]
pub(super) struct RequestHead {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) origin: String,
    pub(super) host: String,
}

impl RequestHead {
    /// Reads the head.
    ///
    /// # Errors
    /// Whoever asked broke off or kept silent.
    pub(super) fn read(stream: &TcpStream) -> io::Result<RequestHead> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut lines = BufReader::new(stream.try_clone()?.take(HEAD)).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let mut words = first.split(' ').map(str::to_owned);
        let mut request = RequestHead {
            method: words.next().unwrap_or_default(),
            path: words.next().unwrap_or_default(),
            ..RequestHead::default()
        };
        for line in lines {
            let line = line?;
            match line.split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("origin") => {
                    request.origin = value.trim().into()
                }
                Some((name, value)) if name.eq_ignore_ascii_case("host") => {
                    request.host = value.trim().into()
                }
                _ if line.is_empty() => break,
                _ => {}
            }
        }
        Ok(request)
    }
}

/// An answer without a body.
///
/// # Errors
/// Whoever asked broke off.
pub(super) fn refuse(stream: &mut TcpStream, status: &str) -> io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}
