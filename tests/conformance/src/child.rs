//! A child process with a time limit, so that a crash or a hang of one case is one failed case.

use anyhow::{Context, Result};
use std::{
    io::Read,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// Characters of a child's output that are kept.
const KEPT: usize = 256 << 10;

#[derive(Debug)]
pub enum Ended {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    TimedOut,
}
impl Ended {
    pub fn of(status: ExitStatus) -> Self {
        status.code().map_or_else(|| Ended::Signal(status.signal().unwrap_or(0)), Ended::Code)
    }
}

#[derive(Debug)]
pub struct Outcome {
    pub ended: Ended,
    pub stderr: String,
}
impl Outcome {
    /// How it ended and the first line of what it said, or nothing for exit code 0.
    pub fn failure(&self) -> Option<String> {
        let how = match self.ended {
            Ended::Code(0) => return None,
            Ended::Code(n) => format!("exit code {n}"),
            Ended::Signal(n) => format!("killed by signal {n}"),
            Ended::TimedOut => "over the time limit".into(),
        };
        let said = self.stderr.lines().find(|l| l.contains("error")).or_else(|| self.stderr.lines().next());
        Some(said.map_or_else(|| how.clone(), |s| format!("{how}: {}", s.trim())))
    }
}

/// Runs to the end or to the limit; then its whole process group is killed.
pub fn run(command: &mut Command, limit: Duration) -> Result<Outcome> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child =
        command.spawn().with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
    let mut stderr = child.stderr.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let mut chunk = [0; 8192];
        while let Ok(n @ 1..) = stderr.read(&mut chunk) {
            text.extend_from_slice(&chunk[..n.min(KEPT.saturating_sub(text.len()))]);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let start = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Ended::of(status);
        }
        if start.elapsed() > limit {
            // The group, so that nothing that the child started keeps the pipe open.
            let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
            let _ = child.kill();
            child.wait()?;
            break Ended::TimedOut;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Ok(Outcome { ended, stderr: reader.join().unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Outcome {
        run(Command::new("sh").args(["-c", script]), limit).unwrap()
    }

    #[test]
    fn every_end_is_told_apart() {
        let long = Duration::from_secs(60);
        assert_eq!(shell("exit 0", long).failure(), None);
        assert_eq!(
            shell("echo hm >&2; echo 'error[E1]: no' >&2; exit 3", long).failure().unwrap(),
            "exit code 3: error[E1]: no"
        );
        assert_eq!(shell("kill -SEGV $$", long).failure().unwrap(), "killed by signal 11");
        let hung = shell("sleep 600 & sleep 600", Duration::from_millis(50));
        assert_eq!(hung.failure().unwrap(), "over the time limit");
    }

    #[test]
    fn much_output_neither_blocks_nor_fills_memory() {
        let o = shell("head -c 3000000 /dev/zero >&2", Duration::from_secs(60));
        assert!(matches!(o.ended, Ended::Code(0)));
        assert_eq!(o.stderr.len(), KEPT);
    }
}
