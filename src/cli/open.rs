//! `stepsim open`: a timeline in the viewer, which fetches it from this machine.
//!
//! A page of another origin may fetch only what that origin is allowed to, and the viewer's page fetches from one
//! port of the loopback address alone. So the server listens there, answers the viewer's origin and nobody else,
//! knows one path, and ends when it has given the file away once. Nothing leaves the machine: the viewer reads the
//! file in the browser.

use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use super::serve::{RequestHead, listen, refuse, until_served};
use super::{Failure, say};
use stepsim_read::trace::TimelineFormat;

/// The viewer, and the port from which its page may fetch.
const VIEWER: &str = "https://ui.perfetto.dev";
const PORT: u16 = 9001;

/// Startup commands of the viewer, stable ones: the step is unfolded, the critical path stays
/// in sight, and the longest waits stand there too, a row a cause.
const COMMANDS: [(&str, &[&str]); 3] = [
    ("dev.perfetto.ExpandTracksByRegex", &["^step$"]),
    ("dev.perfetto.PinTracksByRegex", &["^critical path"]),
    (
        "dev.perfetto.AddDebugSliceTrackWithPivot",
        &[
            "select ts, dur, name, \
             coalesce(extract_arg(arg_set_id, 'args.cause'), extract_arg(arg_set_id, 'debug.cause')) as cause \
             from slice where category = 'stall' order by dur desc limit 100",
            "cause",
            "longest waits",
        ],
    ),
];

/// Show a timeline in the viewer: prints a link that opens it, and serves the file to that page once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim run gpt3-175b -o step.pftrace
  stepsim open step.pftrace       then follow the link

The link asks the viewer to keep the critical path and the hundred longest waits in sight, by cause. The file goes from
this machine to its browser and nowhere else. Without a network: the viewer's page, once visited,
opens offline too; drop the file on it. A page of `--html` is a file for any browser.")]
pub struct Args {
    /// The timeline: .json, .json.gz, .pftrace or .pftrace.gz
    timeline: PathBuf,
    /// Port to listen on, for a viewer of one's own; the usual one fetches from no other
    #[arg(long, default_value_t = PORT)]
    port: u16,
}

/// Runs the command: ends when the file was fetched.
///
/// # Errors
/// The file is no timeline or cannot be read (status 2); nothing can be served at the port.
pub fn run(args: &Args) -> Result<(), Failure> {
    let path = &args.timeline;
    TimelineFormat::of(path).map_err(Failure::input)?;
    File::open(path).map_err(|e| Failure::input(format!("{}: {e}", path.display())))?;
    let (listener, port) = listen(args.port, "stepsim open")?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (path, at) = (path.clone(), format!("/{}", escaped(&name)));
    let commands: Vec<_> =
        COMMANDS.iter().map(|(id, args)| serde_json::json!({"id": id, "args": args})).collect();
    let commands = escaped(&serde_json::Value::from(commands).to_string());
    say(&format!("{VIEWER}/#!/?url=http://127.0.0.1:{port}{at}&startupCommands={commands}\n"))?;
    // Whoever breaks off, or is not the viewer, leaves the file for the next.
    until_served(listener, move |stream| answer(stream, &path, &at));
    Ok(())
}

/// A text as it stands in an address.
fn escaped(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Answers one request; whether it was the viewer's for the file.
fn answer(mut stream: TcpStream, path: &Path, at: &str) -> io::Result<bool> {
    let RequestHead { method, path: wanted, origin, .. } = RequestHead::read(&stream)?;
    let allowed =
        format!("Access-Control-Allow-Origin: {VIEWER}\r\nCache-Control: no-store\r\nConnection: close\r\n");
    if origin != VIEWER || wanted != at {
        return refuse(&mut stream, "403 Forbidden").map(|()| false);
    }
    match method.as_str() {
        "GET" => {
            let mut file = File::open(path)?;
            let length = file.metadata()?.len();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\n{allowed}Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n"
            )?;
            Ok(io::copy(&mut file, &mut stream)? == length)
        }
        // Browsers ask first whether a page of the network may fetch from this machine.
        "OPTIONS" => {
            write!(
                stream,
                "HTTP/1.1 204 No Content\r\n{allowed}Access-Control-Allow-Methods: GET\r\n\
                 Access-Control-Allow-Private-Network: true\r\n\r\n"
            )?;
            Ok(false)
        }
        _ => refuse(&mut stream, "405 Method Not Allowed").map(|()| false),
    }
}
