//! `stepsim app`: the page in a browser, served from this machine.
//!
//! The page is a folder of files (`web/dist`), which opens without a server too; from an address it can be kept as a
//! bookmark, and links into it stay whole. Only files of this folder are served, to whoever asks by the loopback
//! address.

use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use super::serve::{RequestHead, listen, refuse};
use super::{Failure, say};

/// Show the program as a page in the browser: prints its address, and serves it until it is stopped.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim app                   from a clone in which web/build was run
  stepsim app ~/stepsim-page    from another folder

The page runs the same library in the browser; nothing leaves the machine. It is one file, which a browser also opens
without a server.")]
pub struct Args {
    /// The folder of the page
    #[arg(default_value = "web/dist", value_name = "FOLDER")]
    folder: PathBuf,
    /// Port to listen on; 0: any
    #[arg(long, default_value_t = 9002)]
    port: u16,
}

/// Runs the command, until it is stopped.
///
/// # Errors
/// There is no page in the folder (status 2); nothing can be served at the port.
pub fn run(args: &Args) -> Result<(), Failure> {
    let page = args.folder.join("index.html");
    if !page.is_file() {
        let what = "is not there\n  what to do: web/build makes the page in a clone; or name the folder where it lies";
        return Err(Failure::input(format!("{} {what}", page.display())));
    }
    let (listener, port) = listen(args.port, "stepsim app")?;
    say(&format!("http://127.0.0.1:{port}/\n"))?;
    for stream in listener.incoming().flatten() {
        let folder = args.folder.clone();
        // Browsers keep connections open that they may need: one must not wait for another.
        std::thread::spawn(move || answer(stream, &folder, port));
    }
    Ok(())
}

/// Answers one request; whoever breaks off has had enough.
fn answer(mut stream: TcpStream, folder: &Path, port: u16) -> io::Result<()> {
    let request = RequestHead::read(&stream)?;
    // A page of the network that has its name lead here is not answered.
    if ![format!("127.0.0.1:{port}"), format!("localhost:{port}")].contains(&request.host) {
        return refuse(&mut stream, "403 Forbidden");
    }
    if request.method != "GET" {
        return refuse(&mut stream, "405 Method Not Allowed");
    }
    let Some(path) = file(folder, &request.path) else { return refuse(&mut stream, "404 Not Found") };
    let mut file = File::open(&path)?;
    let (length, kind) = (file.metadata()?.len(), kind(&path));
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-cache\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )?;
    io::copy(&mut file, &mut stream).map(|_| ())
}

/// The file of the folder that a path of an address means; none of another folder.
fn file(folder: &Path, path: &str) -> Option<PathBuf> {
    let name = path.split(['?', '#']).next()?.strip_prefix('/')?;
    let name = if name.is_empty() { "index.html" } else { name };
    let plain =
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) && !name.starts_with('.');
    let path = folder.join(name);
    (plain && path.is_file()).then_some(path)
}

/// The kind of a file for a browser.
fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        _ => "application/octet-stream",
    }
}
