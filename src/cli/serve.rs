//! Parts shared by commands that serve the browser on this machine: a request's head, and answers.
//!
//! They listen on the loopback address alone, answer known paths and nothing else, and wait for nobody for long.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::Failure;

/// Longest head of a request.
const HEAD: u64 = 1 << 16;
/// How long one connection may take to ask, and may leave an answer unread.
const PATIENCE: Duration = Duration::from_secs(10);

/// Listens on a port of this machine; returns the port, which the system chooses where 0 is asked for.
///
/// # Errors
/// Somebody listens there already.
pub(super) fn listen(port: u16, command: &str) -> Result<(TcpListener, u16), Failure> {
    let busy = |e: io::Error| {
        Failure::run(format!(
            "port {port} of this machine: {e}\n  what to do: end the program there, maybe another `{command}`"
        ))
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(busy)?;
    let port = listener.local_addr().map_err(busy)?.port();
    Ok((listener, port))
}

/// Answers each connection in a thread of its own, so that one that keeps silent holds up no other (browsers open some
/// ahead); returns when `answer` says that it was the last.
pub(super) fn until_served(
    listener: TcpListener,
    answer: impl Fn(TcpStream) -> io::Result<bool> + Send + Sync + 'static,
) {
    let (tell, served) = mpsc::channel();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (tell, answer) = (tell.clone(), Arc::clone(&answer));
            thread::spawn(move || answer(stream).is_ok_and(|last| last && tell.send(()).is_ok()));
        }
    });
    // An error says that nobody listens any more.
    served.recv().unwrap_or_default();
}

/// A connection that may be read until a moment.
struct Deadline<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl Read for Deadline<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(bytes)
    }
}

/// The head of a request, as far as it counts.
#[derive(Debug, Default)]
pub(super) struct RequestHead {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) origin: String,
}

impl RequestHead {
    /// Reads the head.
    ///
    /// # Errors
    /// Whoever asked broke off or kept silent.
    pub(super) fn read(stream: &TcpStream) -> io::Result<RequestHead> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = Deadline { stream, end: Instant::now() + PATIENCE };
        let mut lines = BufReader::new(head.take(HEAD)).lines();
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
