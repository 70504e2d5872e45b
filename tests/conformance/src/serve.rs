//! Processes that keep the device open from case to case: where opening it takes longer than a case does.
//!
//! A worker is this program started as `--serve DEVICE`. It takes a JSON array of `zml-run`'s arguments a line, and
//! ends what that says on stderr with a line of `END` and the exit code.

use crate::child::{Ended, Outcome};
use anyhow::{Context, Result};
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitCode, Stdio},
    sync::{
        Mutex,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::{Duration, Instant},
};
use zml_runtime::{Artifact, Device, DeviceRequest, cli};

const END: &str = "\u{4}end ";

/// What `--serve` does.
pub fn serve(device: &str) -> Result<bool> {
    let request: DeviceRequest = device.parse()?;
    // Never dropped: it keeps the driver's context of the device alive.
    let mut held = None;
    for line in std::io::stdin().lines() {
        let args: Vec<String> = serde_json::from_str(&line?)?;
        if held.is_none()
            && let Some(artifact) = args.first().and_then(|a| Artifact::open(a.as_ref()).ok())
        {
            held = Device::open(request, &artifact).ok();
        }
        let code = cli::run("zml-run", &args);
        eprintln!("{END}{}", u8::from(code != ExitCode::SUCCESS));
    }
    Ok(true)
}

struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}
impl Worker {
    fn start(device: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--serve", device])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = BufReader::new(child.stderr.take().context("piped")?);
        let stdin = child.stdin.take().context("piped")?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.split(b'\n').map_while(Result::ok) {
                if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        Ok(Worker { child, stdin, lines })
    }

    /// How the call ended; a worker that did not come to the end of it is of no more use.
    fn call(&mut self, args: &[String], limit: Duration) -> Result<Outcome> {
        // A worker that has died says so below.
        let _ = writeln!(self.stdin, "{}", serde_json::to_string(args)?).and_then(|()| self.stdin.flush());
        let start = Instant::now();
        let mut stderr = String::new();
        loop {
            match self.lines.recv_timeout(limit.saturating_sub(start.elapsed())) {
                Ok(line) => {
                    if let Some(code) = line.strip_prefix(END) {
                        return Ok(Outcome { ended: Ended::Code(code.trim().parse()?), stderr });
                    }
                    stderr.push_str(&line);
                    stderr.push('\n');
                }
                Err(RecvTimeoutError::Timeout) => return Ok(Outcome { ended: Ended::TimedOut, stderr }),
                Err(RecvTimeoutError::Disconnected) => {
                    return Ok(Outcome { ended: Ended::of(self.child.wait()?), stderr });
                }
            }
        }
    }
}
impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Workers that wait for a case.
#[derive(Default)]
pub struct Pool(Mutex<Vec<Worker>>);
impl Pool {
    pub fn run(&self, device: &str, args: &[String], limit: Duration) -> Result<Outcome> {
        let idle = self.0.lock().expect("no holder panics").pop();
        let mut worker = idle.map_or_else(|| Worker::start(device), Ok)?;
        let outcome = worker.call(args, limit)?;
        // After an error too: a device may be lost.
        if matches!(outcome.ended, Ended::Code(0)) {
            self.0.lock().expect("no holder panics").push(worker);
        }
        Ok(outcome)
    }
}
